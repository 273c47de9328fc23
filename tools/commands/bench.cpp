// xrun bench and xrun test run a script of the source tree. The executable is in that tree's build
// folder (build/bin/xrun).

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/running_program.h"
#include "tools/commands/command_names.h"
#include "tools/commands/commands.h"

namespace xrun {

namespace {

bool asks_help(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](std::string_view argument) {
    return argument == "--help" || argument == "-h";
  });
}

// Replaces this process by tools/NAME of the source tree. Without a source tree it prints the help
// if that is asked for and returns, else throws Error.
int run_tree_script(const char* name, const char* needs, int argc, char** argv) {
  const std::filesystem::path build = program_path().parent_path().parent_path();
  const std::filesystem::path script = build.parent_path() / "tools" / name;
  if (!path_exists(script) && asks_help(argc, argv)) {
    const CommandName* command = find_command(argv[0]);
    fmt::print("Usage: xrun {} {}\n{}\n", command->name, command->arguments, command->summary);
    return 0;
  }
  XRUN_CHECK(path_exists(script), "{}: missing; {} need the source tree around the build",
             script.string(), needs);
  setenv("XRUN_BUILD", build.c_str(), 1);
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  execv(script.c_str(), arguments.data());
  throw Error(fmt::format("{}: cannot be run: {}", script.string(), std::strerror(errno)));
}

}  // namespace

// The script builds a benchmark when it is first asked for.
int command_bench(int argc, char** argv) {
  return run_tree_script("run_bench", "benchmarks", argc, argv);
}

// Runs the tests that are built; the wrapper ./xrun builds them first.
int command_test(int argc, char** argv) {
  return run_tree_script("run_tests", "tests", argc, argv);
}

}  // namespace xrun
