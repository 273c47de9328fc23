#pragma once
// Child processes: spawned, never forked, since a fork of a threaded process may deadlock.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace xrun {

// The exit status of a child and the last lines that it wrote.
struct ChildResult {
  int status = 0;          // exit status; 128 + signal if a signal ended it; 127 if not started
  std::string last_lines;  // the end of its output, at most 2,000 bytes of whole lines
};

// Called every few milliseconds while a child runs; true ends it with SIGKILL.
using KillWhen = std::function<bool()>;

// Runs `arguments[0]`, looked up in PATH, with this process's environment and no input; standard
// output and error go to the file `output`, which is replaced. Waits until it exits. If the
// interrupt flag is raised meanwhile, ends the child with SIGTERM and throws Interrupted.
ChildResult run_child(const std::vector<std::string>& arguments,
                      const std::filesystem::path& output, const KillWhen& kill_when = {});

}  // namespace xrun
