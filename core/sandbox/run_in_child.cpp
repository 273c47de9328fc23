// The parent waits for signals instead of handling them: they are blocked, and sigtimedwait takes
// them one by one with their senders. The child also gets the terminal's signals (Ctrl-C), because
// it is in the same process group, so only signals that a process sent are passed on.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/running_program.h"
#include "core/sandbox/sandbox.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kCheckInterval = std::chrono::milliseconds(500);  // of time and files
constexpr auto kLongestInterval = std::chrono::seconds(5);       // whatever the number of files
constexpr auto kGrace = std::chrono::seconds(10);  // for a save, after a limit was reached

uintmax_t bytes_in(const std::vector<fs::path>& folders) {
  uintmax_t sum = 0;
  std::error_code code;
  for (const fs::path& folder : folders) {
    // Errors are files that the child removed meanwhile.
    for (fs::recursive_directory_iterator at(folder, code), end; !code && at != end;
         at.increment(code)) {
      std::error_code gone;
      if (!at->is_regular_file(gone) || at->is_symlink(gone)) continue;
      const uintmax_t bytes = at->file_size(gone);
      if (!gone) sum += bytes;
    }
  }
  return sum;
}

// Returns 0, which is no limit, if the free space is unknown.
uintmax_t most_growth(const std::vector<fs::path>& folders, const SandboxLimits& limits) {
  if (limits.files_mb > 0) return static_cast<uintmax_t>(limits.files_mb) << 20;
  std::error_code code;
  if (folders.empty()) return 0;
  const fs::space_info space = fs::space(folders.front(), code);
  return code ? 0 : space.available / 2;
}

class Child {
 public:
  Child(char** argv, const std::vector<std::string>& variables, const sigset_t& mask) {
    std::vector<char*> environment;
    for (char** at = environ; *at != nullptr; ++at) environment.push_back(*at);
    for (const std::string& one : variables) {
      const size_t name = one.find('=') + 1;
      std::erase_if(environment, [&](const char* had) {
        return std::string_view(had).starts_with(std::string_view(one).substr(0, name));
      });
      environment.push_back(const_cast<char*>(one.c_str()));
    }
    environment.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    // The resolved path, since the program finds its libraries beside it.
    const std::string self = program_path().string();
    const int code =
        posix_spawn(&pid_, self.c_str(), &files, &attributes, argv, environment.data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    XRUN_CHECK(code == 0, "{}: cannot be started: {}", self, std::strerror(code));
  }

  void send(int signal_number) const { ::kill(pid_, signal_number); }

  std::optional<int> ended() const {
    int status = 0;
    const pid_t done = ::waitpid(pid_, &status, WNOHANG);
    if (done == 0 || (done < 0 && errno == EINTR)) return std::nullopt;
    XRUN_CHECK(done == pid_, "cannot wait for a child process: {}", std::strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
};

std::string death_text(int status) {
  if (status <= 128) return "";
  const int number = status - 128;
  // A child that handles one of these saves first and then exits with the same status by itself.
  if (number == SIGINT || number == SIGTERM || number == SIGHUP) return "";
  return fmt::format("the process of the recipe was ended by signal {} ({})", number,
                     strsignal(number));
}

}  // namespace

// Checks take about 1 % of the time. The pause has a limit, so that a recipe with many files cannot
// delay the next check.
std::chrono::nanoseconds pause_after_check(std::chrono::nanoseconds took) {
  return std::clamp<std::chrono::nanoseconds>(took * 99, kCheckInterval, kLongestInterval);
}

SandboxEnd run_in_child(char** argv, const std::vector<std::string>& variables,
                        const std::vector<fs::path>& written, const SandboxLimits& limits) {
  sigset_t waited, before;
  sigemptyset(&waited);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&waited, number);
  }
  sigprocmask(SIG_BLOCK, &waited, &before);
  const uintmax_t growth = most_growth(written, limits), at_start = bytes_in(written);
  const auto start = Clock::now();
  const Child child(argv, variables, before);
  SandboxEnd end;
  std::optional<Clock::time_point> killed_at;
  // SIGTERM lets the child save; SIGKILL follows after kGrace.
  const auto stop = [&](std::string why) {
    if (end.limit_reached) return;
    end.limit_reached = true;
    end.text = std::move(why);
    child.send(SIGTERM);
    killed_at = Clock::now() + kGrace;
  };
  auto next_check = start + kCheckInterval;
  while (true) {
    if (const std::optional<int> status = child.ended()) {
      end.status = *status;
      break;
    }
    const auto now = Clock::now();
    // In whole seconds: a large limit has too many nanoseconds for a duration.
    const auto ran = std::chrono::duration_cast<std::chrono::seconds>(now - start);
    if (limits.seconds > 0 && ran.count() >= limits.seconds) {
      stop(fmt::format("the recipe ran longer than --limit-seconds {}", limits.seconds));
    }
    if (growth > 0 && now >= next_check) {
      if (bytes_in(written) > at_start + growth) {
        stop(fmt::format("the recipe wrote more than {} MB of files; --limit-files MB allows more",
                         growth >> 20));
      }
      const auto ended = Clock::now();
      next_check = ended + pause_after_check(ended - now);
    }
    if (killed_at && now >= *killed_at) child.send(SIGKILL);
    const timespec patience = {0, std::chrono::nanoseconds(kCheckInterval).count()};
    siginfo_t about{};
    const int number = ::sigtimedwait(&waited, &about, &patience);
    if (number > 0 && number != SIGCHLD && about.si_code <= 0) child.send(number);
  }
  if (end.text.empty()) end.text = death_text(end.status);
  return end;
}

}  // namespace xrun
