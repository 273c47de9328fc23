#pragma once
// A child process for recipes that are not trusted: this program executed again, with limits that
// it sets on itself before it opens anything of the recipe.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/file_access.h"

namespace xrun {

struct SandboxLimits {
  int64_t seconds = 0;       // of wall clock, and of CPU time times the processors; 0: no limit
  int64_t memory_mb = 0;     // private memory; 0: three quarters of the machine's
  int64_t files_mb = 0;      // growth of the writable folders; 0: half of the free space
  int64_t output_mb = 1024;  // that a recipe prints
};

// Sets the limits on this process: memory, sizes and number of files, CPU time, processes, paths
// (in xrun and, by Landlock, in the kernel), system calls. Must be called while the process has one
// thread, and never undone. `system` is what libraries open by themselves; xrun refuses it to
// recipes. This process dies with `parent` (a pid; 0: its current parent). Returns what this kernel
// cannot limit. Throws Error if a limit cannot be set or the parent has ended.
std::vector<std::string> enter_sandbox(const FileAccess& access, const FileAccess& system,
                                       const SandboxLimits& limits, int64_t parent = 0);

// The end of a child.
struct SandboxEnd {
  int status = 0;              // the child's exit status; 128 + N where signal N ended it
  bool limit_reached = false;  // this process ended it
  std::string text;            // why it did not end by itself; "" if it did
};

// Starts this program again with the same arguments and `variables` ("NAME=value") added to the
// environment, and waits for its end. Signals that this process gets meanwhile are passed on. The
// child is ended after limits.seconds, or once the `written` folders have grown by limits.files_mb.
// Only the three standard streams stay open in it; it dies with this process. Blocks signals; to be
// called while the process has one thread.
SandboxEnd run_in_child(char** argv, const std::vector<std::string>& variables,
                        const std::vector<std::filesystem::path>& written,
                        const SandboxLimits& limits);

// Returns the pause until the next check of the written folders, of which the last took `took`.
std::chrono::nanoseconds pause_after_check(std::chrono::nanoseconds took);

}  // namespace xrun
