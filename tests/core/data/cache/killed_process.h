#pragma once
// Runs work in a child process, and kills one after a while, as a power cut would.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "tests/scratch_folder.h"

namespace xrun {

using Microseconds = std::chrono::microseconds;

// Like fork(), but throws Error if no process can be created: kill() and wait() would read -1 as
// "all processes".
inline pid_t fork_process() {
  const pid_t pid = ::fork();
  XRUN_CHECK(pid >= 0, "fork: {}", std::strerror(errno));
  return pid;
}

template <class Work>
pid_t start_process(Work work) {
  const pid_t pid = fork_process();
  if (pid != 0) return pid;
  const std::string error = error_of(work);
  if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
  ::_exit(error.empty() ? 0 : 1);
}

// Waits for a process that ends well or by kill -9. Returns whether it was the former.
inline bool ended_by_itself(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

// Returns whether the work had ended by itself, and well, before kill -9 came.
template <class Work>
bool run_and_kill(Microseconds patience, Work work) {
  const pid_t pid = start_process(work);
  std::this_thread::sleep_for(patience);
  ::kill(pid, SIGKILL);
  return ended_by_itself(pid);
}

}  // namespace xrun
