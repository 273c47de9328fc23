// xrun bench and xrun test: hand over to a script of the source tree, in whose build folder the
// executable is (build/bin/xrun).

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
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

// Runs tools/NAME of the source tree in place of this process; returns only after help where there
// is no source tree, whose scripts print their own.
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
  throw Error(script.string() + ": cannot be run");
}

}  // namespace

// The benchmarks are programs that are built when they are first asked for.
int command_bench(int argc, char** argv) {
  return run_tree_script("run_bench", "benchmarks", argc, argv);
}

// The wrapper ./xrun builds the tests first; this runs those that are built.
int command_test(int argc, char** argv) {
  return run_tree_script("run_tests", "tests", argc, argv);
}

}  // namespace xrun
