// xrun bench: hands over to tools/run_bench of the source tree, in whose build folder the
// executable is (build/bin/xrun). The benchmarks are programs that are built when they are first
// asked for.

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tools/commands/commands.h"

namespace xrun {

int command_bench(int argc, char** argv) {
  const std::filesystem::path build =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  const std::filesystem::path script = build.parent_path() / "tools/run_bench";
  XRUN_CHECK(path_exists(script), "{}: missing; benchmarks need the source tree around the build",
             script.string());
  setenv("XRUN_BUILD", build.c_str(), 1);
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  execv(script.c_str(), arguments.data());
  throw Error(script.string() + ": cannot be run");
}

}  // namespace xrun
