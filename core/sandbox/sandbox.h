#pragma once
// Runs untrusted recipes in a child process: this program again, with limits that it sets on itself
// before it opens anything of the recipe.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/file_access.h"

namespace xrun {

struct SandboxLimits {
  int64_t seconds = 0;       // of wall-clock time, and of CPU time per processor; 0: no limit
  int64_t memory_mb = 0;     // private memory; 0: three quarters of the machine's
  int64_t files_mb = 0;      // growth of the writable folders; 0: half of the free space
  int64_t output_mb = 1024;  // printed by the recipe
};

// Sets the limits on this process, which cannot be undone: memory, sizes and number of files, CPU
// time, processes, paths (in xrun and, by Landlock, in the kernel), system calls. Requires that the
// process has one thread.
//   access  the paths that the recipe may open
//   system  the paths that only libraries may open, by themselves
//   parent  a pid; this process dies with it; 0: its current parent
// Returns one sentence for each thing that this kernel cannot limit. Throws Error if a limit cannot
// be set, the process has several threads or the parent has ended.
std::vector<std::string> enter_sandbox(const FileAccess& access, const FileAccess& system,
                                       const SandboxLimits& limits, int64_t parent = 0);

// The end of a child.
struct SandboxEnd {
  int status = 0;              // the child's exit status; 128 + N where signal N ended it
  bool limit_reached = false;  // ended by this process, at a limit
  std::string text;            // the limit or signal that ended it; "" if it ended by itself
};

// Starts this program again with the arguments `argv` and `variables` ("NAME=value") added to the
// environment, and waits until it exits. Passes on the signals that other processes send meanwhile.
// Ends the child after limits.seconds, or once the `written` folders have grown by limits.files_mb.
// Only the three standard streams stay open in the child, which dies with this process. Blocks
// signals and leaves them blocked. Requires that the process has one thread.
SandboxEnd run_in_child(char** argv, const std::vector<std::string>& variables,
                        const std::vector<std::filesystem::path>& written,
                        const SandboxLimits& limits);

// Returns the pause before the next check of the written folders, if the last one took `took`.
std::chrono::nanoseconds pause_after_check(std::chrono::nanoseconds took);

}  // namespace xrun
