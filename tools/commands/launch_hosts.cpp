// The launcher of a host ends its ranks when the connection, its standard input, ends.

#include "tools/commands/launch_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/process_usage.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/dist/watch/socket.h"

namespace xrun {

namespace {

// Time for the other hosts after a launcher failed: watchdogs end their ranks, which may save
// first.
constexpr double kEndOfOthersS = 90;
constexpr double kEndOfConnectionS = 15;
constexpr int kHostPollMs = 200;
constexpr int kForwardedSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kFirstPort = 12000, kPorts = 16000;  // below those that systems hand out

struct HostProcess {
  pid_t pid = -1;
  Socket commands;
  std::optional<int> status;
};

// Returns $MASTER_PORT, or a port that another run on rank 0's machine is unlikely to have.
int port_of_run() {
  if (const char* const text = std::getenv("MASTER_PORT")) {
    if (const auto port = whole_number_of(text); port && *port >= 1 && *port < 65536)
      return static_cast<int>(*port);
    throw UsageError(fmt::format("MASTER_PORT: got \"{}\", wanted a number from 1 to 65535", text));
  }
  return kFirstPort + static_cast<int>((::getpid() * 7919LL + ::time(nullptr)) % kPorts);
}

HostProcess start_host(const LaunchHost& host, const HostRanks& ranks,
                       const std::vector<std::string>& words) {
  // Names the program by its path, since a login shell there may have another PATH.
  const std::string self = program_path().string();
  const char* const launched = std::getenv(kLaunchedAs);  // ssh passes no environment on
  std::string line = fmt::format(
      // exec, so that the remote shell leaves no process between ssh and the launcher.
      "cd {} && exec env {} {} launch --host-ranks {}", shell_word(working_folder().string()),
      shell_word(fmt::format("{}={}", kLaunchedAs, launched == nullptr ? "" : launched)),
      shell_word(self), shell_word(host_ranks_text(ranks)));
  for (const std::string& word : words) line += " " + shell_word(word);
  const char* const ssh = std::getenv("XRUN_LAUNCH_SSH");
  std::string program = ssh == nullptr || *ssh == 0 ? "ssh" : ssh;
  std::string name = host.name;
  char* argv[] = {program.data(), name.data(), line.data(), nullptr};
  int ends[2] = {-1, -1};
  XRUN_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "cannot create a pipe for {}: {}", host.name,
             std::strerror(errno));
  HostProcess out;
  out.commands = Socket(ends[1]);
  out.pid = ::fork();
  XRUN_CHECK(out.pid >= 0, "{} cannot be started for {}: {}", program, host.name,
             std::strerror(errno));
  if (out.pid == 0) {
    ::setpgid(0, 0);  // Ctrl-C of the terminal reaches the launcher as a byte instead
    ::dup2(ends[0], STDIN_FILENO);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execvp(argv[0], argv);
    fmt::print(stderr, "xrun: error: {}: {}\n", program, std::strerror(errno));
    ::_exit(127);
  }
  ::close(ends[0]);
  return out;
}

class HostProcesses {
 public:
  HostProcesses(const std::vector<LaunchHost>& hosts, const std::vector<std::string>& words);
  int run();

 private:
  void forward_signals();
  void reap();
  bool all_ended() const;

  std::vector<HostProcess> hosts_;
  Socket signals_;
  std::optional<int> failed_;  // status of the first that failed
  SteadyClock::time_point failed_at_;
};

HostProcesses::HostProcesses(const std::vector<LaunchHost>& hosts,
                             const std::vector<std::string>& words) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal_number : kForwardedSignals) sigaddset(&mask, signal_number);
  sigaddset(&mask, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  // A host that is gone makes write() fail instead of ending this process.
  ::signal(SIGPIPE, SIG_IGN);
  signals_ = Socket(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  XRUN_CHECK(signals_.open(), "cannot read signals: {}", std::strerror(errno));
  HostRanks ranks;
  for (const LaunchHost& host : hosts) ranks.size += host.ranks;
  // Rank 0 is on the first host, under the name by which ssh reaches it.
  ranks.address = hosts[0].name;
  ranks.port = port_of_run();
  for (const LaunchHost& host : hosts) {
    ranks.local_size = host.ranks;
    hosts_.push_back(start_host(host, ranks, words));
    ranks.first_rank += host.ranks;
  }
}

void HostProcesses::forward_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.fd(), &info, sizeof info) == sizeof info) {
    const char byte = static_cast<char>(info.ssi_signo);
    if (info.ssi_signo == SIGCHLD) continue;
    for (const HostProcess& host : hosts_) {
      // A signal travels as one byte: ssh forwards none.
      if (!host.status && host.commands.open() && ::write(host.commands.fd(), &byte, 1) < 0) {
        // It has ended; reap() sees that.
      }
    }
  }
}

void HostProcesses::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    for (HostProcess& host : hosts_) {
      if (host.pid != pid) continue;
      host.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      // Later failures follow from the first.
      if (*host.status == 0 || failed_) continue;
      failed_ = host.status;
      failed_at_ = SteadyClock::now();
    }
  }
}

bool HostProcesses::all_ended() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [](const HostProcess& host) { return host.status.has_value(); });
}

int HostProcesses::run() {
  while (!all_ended()) {
    pollfd wait = {signals_.fd(), POLLIN, 0};
    ::poll(&wait, 1, kHostPollMs);
    forward_signals();
    reap();
    if (!failed_) continue;
    const double since_s = seconds_since(failed_at_);
    for (HostProcess& host : hosts_) {
      // The end of its input is a launcher's order to stop.
      if (since_s > kEndOfOthersS) host.commands = Socket();
      if (since_s > kEndOfOthersS + kEndOfConnectionS && !host.status) {
        ::kill(-host.pid, SIGKILL);
      }
    }
  }
  return failed_.value_or(0);
}

}  // namespace

std::vector<LaunchHost> read_hosts(const std::string& path, int64_t ranks) {
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("--hosts: {} cannot be read", path));
  std::vector<LaunchHost> out;
  std::string line;
  int64_t number = 0, slots = 0;
  const int64_t wanted = ranks;
  while (std::getline(file, line)) {
    ++number;
    const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    const size_t space = std::min(text.find_first_of(kBlanks), text.size());
    LaunchHost host{std::string(text.substr(0, space)), 1};
    if (const std::string_view rest = trimmed(text.substr(space)); !rest.empty()) {
      const auto count = rest.starts_with("slots=") ? whole_number_of(rest.substr(strlen("slots=")))
                                                    : std::nullopt;
      if (!count || *count < 1 || *count > kMostHostRanks) {
        throw UsageError(fmt::format(
            "{}:{}: got \"{}\", wanted HOST or HOST slots=N{}", path, number, text,
            count.value_or(0) > kMostHostRanks ? fmt::format(" with at most {}", kMostHostRanks)
                                               : ""));
      }
      host.ranks = *count;
    }
    slots += host.ranks;
    // Hosts are filled in the order of the file, so rank 0 is always on the first.
    if (wanted > 0) host.ranks = std::min(host.ranks, ranks);
    ranks -= host.ranks;
    if (host.ranks > 0) out.push_back(std::move(host));
  }
  if (out.empty()) throw UsageError(fmt::format("--hosts: {} names no host", path));
  if (wanted > slots) {
    throw UsageError(fmt::format("-n {} is more than the {} in {}; raise slots=N of its hosts",
                                 wanted, counted(slots, "slot"), path));
  }
  return out;
}

std::string host_ranks_text(const HostRanks& ranks) {
  return fmt::format("{}:{}:{}:{}:{}", ranks.first_rank, ranks.local_size, ranks.size, ranks.port,
                     ranks.address);
}

HostRanks read_host_ranks(const std::string& text) {
  HostRanks out;
  int address = 0;
  long long first = 0, count = 0, size = 0;
  // %n is not counted: 4 numbers, and where the address begins. It may have colons (IPv6).
  const int read =
      std::sscanf(text.c_str(), "%lld:%lld:%lld:%d:%n", &first, &count, &size, &out.port, &address);
  out.first_rank = first;
  out.local_size = count;
  out.size = size;
  out.address = address > 0 ? text.substr(static_cast<size_t>(address)) : "";
  if (read == 4 && !out.address.empty() && first >= 0 && count > 0 && first + count <= size) {
    return out;
  }
  throw UsageError(
      fmt::format("--host-ranks: got \"{}\", wanted FIRST:COUNT:SIZE:PORT:ADDRESS", text));
}

int run_hosts(const std::vector<LaunchHost>& hosts, const std::vector<std::string>& words) {
  return HostProcesses(hosts, words).run();
}

}  // namespace xrun
