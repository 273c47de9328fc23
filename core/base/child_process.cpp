// The wait polls instead of blocking, so that an interrupt or `kill_when` can end the child.

#include "core/base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"

namespace xrun {

namespace {

constexpr int kPollMs = 50;      // longest wait before an interrupt ends the child
constexpr int kClosePollMs = 2;  // longest delay of a kill: tests kill at exact moments
constexpr size_t kLastBytes = 2000;

// Standard input from /dev/null; standard output and error into one file. No pipe: a child that
// writes much never blocks on a parent that does not read.
class SpawnFiles {
 public:
  explicit SpawnFiles(const std::filesystem::path& output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
  }
  ~SpawnFiles() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnFiles(const SpawnFiles&) = delete;
  SpawnFiles& operator=(const SpawnFiles&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Reaps the child after a kill. Repeats a wait that a signal interrupts, or the child would stay a
// zombie.
void wait_to_end(pid_t child, int* status) {
  while (::waitpid(child, status, 0) < 0 && errno == EINTR) {
  }
}

// Returns the child's exit status, in the form of ChildResult.
int wait_for(pid_t child, const KillWhen& kill_when) {
  int status = 0;
  while (true) {
    // WNOHANG: 0 while the child runs.
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) break;
    XRUN_CHECK(done == 0 || errno == EINTR, "cannot wait for a child process: {}", strerror(errno));
    if (interrupt_requested()) {
      ::kill(child, SIGTERM);
      wait_to_end(child, &status);
      throw Interrupted(interrupt_signal());
    }
    if (kill_when && kill_when()) {
      ::kill(child, SIGKILL);
      wait_to_end(child, &status);
      break;
    }
    ::poll(nullptr, 0, kill_when ? kClosePollMs : kPollMs);
  }
  // 128 + signal, as a shell reports it.
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Returns the end of the output, where a command says why it failed.
std::string last_lines(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() <= kLastBytes) return text;
  // One byte earlier, so that a line that begins exactly there stays whole.
  const size_t newline = text.find('\n', text.size() - kLastBytes - 1);
  return text.substr(newline == std::string::npos ? text.size() - kLastBytes : newline + 1);
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments,
                      const std::filesystem::path& output, const KillWhen& kill_when) {
  std::vector<char*> argv;
  // posix_spawn takes char* const[], but does not write to the strings.
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const SpawnFiles files(output);
  pid_t child = 0;
  // posix_spawnp returns its error and does not set errno. 127 is a shell's status for a command
  // that cannot be started.
  const int code = ::posix_spawnp(&child, argv[0], files.get(), nullptr, argv.data(), environ);
  if (code != 0) return {127, arguments[0] + ": " + std::strerror(code)};
  const int status = wait_for(child, kill_when);
  return {status, last_lines(read_file(output))};
}

}  // namespace xrun
