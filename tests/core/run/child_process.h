#pragma once
// Runs one disabled test of this program in a new child process.

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

extern char** environ;

namespace xrun {

// The test Child.DISABLED_<name>, with `folder` in $XRUN_CHILD_FOLDER and its output in a pipe.
class ChildProcess {
 public:
  ChildProcess(const std::string& name, const std::string& folder) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<std::string> arguments = {"test", "--gtest_also_run_disabled_tests",
                                          "--gtest_filter=Child.DISABLED_" + name,
                                          "--gtest_output="};
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::setenv("XRUN_CHILD_FOLDER", folder.c_str(), 1);
    ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~ChildProcess() {
    if (pid_ > 0) {
      kill(SIGKILL);
      wait();
    }
    ::close(output_);
  }

  // Reads the child's output until `word` was said; false at its end.
  bool wait_for(const std::string& word) {
    while (said_.find(word) == std::string::npos) {
      char bytes[4096];
      const ssize_t n = ::read(output_, bytes, sizeof bytes);
      if (n <= 0) return false;
      said_.append(bytes, static_cast<size_t>(n));
    }
    return true;
  }
  void kill(int signal_number) { ::kill(pid_, signal_number); }
  // Returns the exit status, or 128 + the signal that ended the child.
  int wait() {
    int status = 0;
    while (wait_for("\1never said")) {
    }
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& said() const { return said_; }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string said_;
};

}  // namespace xrun
