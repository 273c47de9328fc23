// Each rank leads a process group, so that its own children end with it; PR_SET_PDEATHSIG ends the
// ranks if this process is killed, and as their subreaper it finds what outlives them. This process
// has one thread, therefore it may fork.

#include "tools/commands/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/dist/watch/flight_record.h"
#include "core/dist/watch/socket.h"
#include "tools/commands/rank_output.h"

namespace xrun {

namespace {

// Time for the other ranks after one failed, in which their watchdogs (watchdog.h) end them. After
// an error that a rank reported itself they save first.
constexpr double kBeforeJoinS = 5;  // the others wait for a rank that will not come
constexpr double kAfterKillS = 20;
constexpr double kAfterErrorS = 75;
constexpr int kPollMs = 200;
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT};

struct RankProcess {
  int64_t rank = 0;
  pid_t pid = -1;
  RankOutput output;
  bool ended_here = false;    // killed by this process
  std::optional<int> status;  // from waitpid, once it has ended
};

class RankProcesses {
 public:
  explicit RankProcesses(const RankProcessOptions& options);
  ~RankProcesses();
  int run();

 private:
  void start(int64_t local_rank);
  [[noreturn]] void execute(const RankProcess& process, int64_t local_rank, int output);
  void read_output(RankProcess& process);
  bool joined(const RankProcess& process) const;
  void print_early_lines();
  void on_signal();
  void read_launcher();
  void forward(int signal_number);
  void reap();
  void note_end(RankProcess& process, int status);
  void end_others();
  void kill_all();
  bool all_ended() const;
  RankStatus status_of(const RankProcess& process) const;
  std::string end_text(const RankProcess& process) const;
  std::string failure_text() const;
  int finish();

  const RankProcessOptions options_;
  std::vector<RankProcess> ranks_;
  FlightRecord::RecordSlot* slots_ = nullptr;
  int slots_fd_ = -1;
  Socket signals_;
  sigset_t old_mask_{};
  int64_t oom_kills_ = 0;  // of the control group, before the start
  bool reads_stdin_ = false;
  std::optional<SteadyClock::time_point> launcher_gone_at_;
  const RankProcess* first_failed_ = nullptr;
  SteadyClock::time_point failed_at_;
};

// Returns the number of processes of this control group that the system killed for memory.
int64_t oom_kills() {
  std::ifstream file("/sys/fs/cgroup/memory.events");
  std::string name;
  for (int64_t count = 0; file >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return 0;
}

bool succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

RankProcesses::RankProcesses(const RankProcessOptions& options)
    : options_(options), ranks_(options.local_size), oom_kills_(oom_kills()) {
  const size_t bytes = sizeof(FlightRecord::RecordSlot) * ranks_.size();
  // Shared memory survives a crash of the rank: the report can say what it did last.
  slots_fd_ = ::memfd_create("xrun-ranks", 0);  // inherited by the ranks
  XRUN_CHECK(slots_fd_ >= 0 && ::ftruncate(slots_fd_, static_cast<off_t>(bytes)) == 0,
             "cannot share memory with the ranks: {}", std::strerror(errno));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, slots_fd_, 0);
  XRUN_CHECK(memory != MAP_FAILED, "cannot share memory with the ranks: {}", std::strerror(errno));
  slots_ = static_cast<FlightRecord::RecordSlot*>(memory);
  for (size_t i = 0; i < ranks_.size(); ++i) new (&slots_[i]) FlightRecord::RecordSlot;
  // Before the first fork, so that no orphan of a rank escapes to init.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal_number : kForwarded) sigaddset(&mask, signal_number);
  // Blocked and read from a descriptor, so that no signal comes between a check and poll().
  sigaddset(&mask, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &mask, &old_mask_);
  signals_ = Socket(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  XRUN_CHECK(signals_.open(), "cannot read signals: {}", std::strerror(errno));
  for (int64_t i = 0; i < options_.local_size; ++i) start(i);
  // The ranks have their copies; mmap keeps this process's memory.
  ::close(slots_fd_);
  if (options_.master_fd >= 0) ::close(options_.master_fd);
  reads_stdin_ = options_.from_launcher;
}

RankProcesses::~RankProcesses() { kill_all(); }

void RankProcesses::start(int64_t local_rank) {
  RankProcess& process = ranks_[local_rank];
  process.rank = options_.first_rank + local_rank;
  int ends[2] = {-1, -1};
  // Rank 0 has the terminal itself, for its colours and status line.
  if (process.rank != 0) {
    XRUN_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "cannot create a pipe for rank {}: {}", process.rank,
               std::strerror(errno));
    process.output = RankOutput(process.rank, Socket(ends[0]));
  }
  process.pid = ::fork();
  XRUN_CHECK(process.pid >= 0, "rank {} cannot be started: {}", process.rank, std::strerror(errno));
  if (process.pid == 0) execute(process, local_rank, ends[1]);
  ::setpgid(process.pid, process.pid);  // here too, or a signal could come before the child's call
  if (ends[1] >= 0) ::close(ends[1]);
}

// Becomes the rank. Runs in the child.
void RankProcesses::execute(const RankProcess& process, int64_t local_rank, int output) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Two readers of one terminal would share its input at random.
  if (output >= 0 || options_.from_launcher) ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  if (output >= 0) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
  }
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), /*overwrite=*/1);
  };
  set("RANK", std::to_string(process.rank));
  set("WORLD_SIZE", std::to_string(options_.size));
  set("LOCAL_RANK", std::to_string(local_rank));
  set("LOCAL_WORLD_SIZE", std::to_string(options_.local_size));
  set("MASTER_ADDR", options_.address);
  set("MASTER_PORT", std::to_string(options_.port));
  set("XRUN_RANK_RECORDS", std::to_string(slots_fd_));
  if (process.rank == 0 && options_.master_fd >= 0) {
    ::fcntl(options_.master_fd, F_SETFD, 0);  // survives the exec
    set("XRUN_MASTER_FD", std::to_string(options_.master_fd));
  } else if (options_.master_fd >= 0) {
    ::close(options_.master_fd);
  }
  std::vector<char*> argv;
  for (const std::string& word : options_.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // A blocked signal stays blocked across exec, and the rank could not be interrupted.
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "xrun: error: %s: %s\n", argv[0], std::strerror(errno));
  // 127, as a shell reports it, and without the parent's exit handlers.
  ::_exit(127);
}

bool RankProcesses::joined(const RankProcess& process) const {
  return slots_[process.rank - options_.first_rank].joined.load(std::memory_order_relaxed);
}

// Prints the output of ranks that ended before they joined. If all end alike, as after a mistyped
// option, only the first rank's is printed.
void RankProcesses::print_early_lines() {
  const RankProcess& first = ranks_.front();
  for (RankProcess& process : ranks_) {
    const bool alike = &process != &first && !joined(first) && !succeeded(*first.status) &&
                       process.status == first.status;
    if (alike) continue;
    process.output.print_early_lines();
  }
}

void RankProcesses::read_output(RankProcess& process) {
  process.output.read([&] { return joined(process); });
}

// Stops and continues whole process groups, programs of ranks included, as a terminal does. Other
// signals go to the ranks alone.
void RankProcesses::forward(int signal_number) {
  for (const RankProcess& process : ranks_) {
    if (process.status) continue;
    ::kill(signal_number == SIGTSTP || signal_number == SIGCONT ? -process.pid : process.pid,
           signal_number == SIGTSTP ? SIGSTOP : signal_number);
  }
}

void RankProcesses::read_launcher() {
  char byte = 0;
  if (::read(STDIN_FILENO, &byte, 1) == 1) return forward(byte);
  reads_stdin_ = false;
  // End of file: the launcher, or the connection to it, is gone. The ranks may still save.
  launcher_gone_at_ = SteadyClock::now();
  forward(SIGTERM);
}

void RankProcesses::on_signal() {
  signalfd_siginfo info{};
  while (::read(signals_.fd(), &info, sizeof info) == sizeof info) {
    const int signal_number = static_cast<int>(info.ssi_signo);
    if (signal_number == SIGCHLD) continue;  // reap() runs after every poll
    forward(signal_number);
    // After the ranks; SIGCONT wakes this process first, which forwards it.
    if (signal_number == SIGTSTP) ::raise(SIGSTOP);
  }
}

void RankProcesses::note_end(RankProcess& process, int status) {
  process.status = status;
  ::kill(-process.pid, SIGKILL);  // what it started
  if (succeeded(status) || process.ended_here) return;
  // A rank that was killed is the cause; the others then fail because of it.
  const bool by_signal = WIFSIGNALED(status);
  if (first_failed_ == nullptr || (by_signal && WIFEXITED(*first_failed_->status))) {
    // The limits for the others run from the first failure, whoever turns out to be the cause.
    if (first_failed_ == nullptr) failed_at_ = SteadyClock::now();
    first_failed_ = &process;
  }
}

void RankProcesses::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    for (RankProcess& process : ranks_) {
      // An orphan of a rank may have the number of one that has ended.
      if (process.pid == pid && !process.status) note_end(process, status);
    }
  }
}

bool RankProcesses::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankProcess& process) { return process.status.has_value(); });
}

// Returns true if a signal has stopped the process.
bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // "PID (NAME) STATE ..."
  return name_end != std::string::npos && text.substr(name_end).starts_with(") T");
}

// Called after a failure. Kills ranks that are stopped, since these cannot end by themselves, and
// all ranks once their time is over.
void RankProcesses::end_others() {
  const bool killed = WIFSIGNALED(*first_failed_->status);
  const double limit_s =
      !joined(*first_failed_) ? kBeforeJoinS : (killed ? kAfterKillS : kAfterErrorS);
  // Their own watchdogs should have ended them by now.
  if (seconds_since(failed_at_) > limit_s) return kill_all();
  for (RankProcess& process : ranks_) {
    if (process.status || !is_stopped(process.pid)) continue;
    process.ended_here = true;
    ::kill(-process.pid, SIGKILL);
  }
}

// Ends the ranks and everything that they started and left.
void RankProcesses::kill_all() {
  for (const RankProcess& process : ranks_) {
    if (process.pid > 0 && !process.status) ::kill(-process.pid, SIGKILL);
  }
  while (true) {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", ::getpid()));
    pid_t child = 0;
    bool any = false;
    while (children >> child) {
      ::kill(child, SIGKILL);
      any = true;
    }
    if (!any) break;
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, 0)) > 0;) {
      for (RankProcess& process : ranks_) {
        if (process.pid == pid && !process.status) process.status = status;
      }
    }
  }
}

int RankProcesses::run() {
  while (true) {
    std::vector<pollfd> waits = {{signals_.fd(), POLLIN, 0}};
    if (reads_stdin_) waits.push_back({STDIN_FILENO, POLLIN, 0});
    for (const RankProcess& process : ranks_) {
      if (process.output.open()) waits.push_back({process.output.fd(), POLLIN, 0});
    }
    // With a timeout: stopped ranks and the limits below wake nobody.
    ::poll(waits.data(), waits.size(), kPollMs);
    if (reads_stdin_ && waits[1].revents != 0) {
      read_launcher();
    }
    on_signal();
    for (RankProcess& process : ranks_) read_output(process);
    reap();
    if (all_ended()) break;
    if (first_failed_ != nullptr) end_others();
    if (launcher_gone_at_ && seconds_since(*launcher_gone_at_) > kAfterErrorS) kill_all();
  }
  for (RankProcess& process : ranks_) read_output(process);
  print_early_lines();
  return finish();
}

RankStatus RankProcesses::status_of(const RankProcess& process) const {
  return read_slot(slots_[process.rank - options_.first_rank]);
}

std::string RankProcesses::end_text(const RankProcess& process) const {
  const int status = *process.status;
  const RankStatus last = status_of(process);
  std::string what = WIFEXITED(status) ? fmt::format("ended with status {}", WEXITSTATUS(status))
                                       : fmt::format("killed by signal {} ({})", WTERMSIG(status),
                                                     ::strsignal(WTERMSIG(status)));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && oom_kills() > oom_kills_) {
    what += ", since the system ran out of memory";
  }
  if (joined(process)) what += "; last: " + status_text(last, monotonic_ms());
  return fmt::format("rank {} of {}: {}: {}", process.rank, options_.size, step_text(last), what);
}

// Returns "rank R of N: step S: what happened".
std::string RankProcesses::failure_text() const {
  if (WIFSIGNALED(*first_failed_->status)) return end_text(*first_failed_);
  // A rank that had joined reports its own error, or its watchdog's finding.
  const auto text_of = [&](const RankProcess& process) {
    const char* const text = slots_[process.rank - options_.first_rank].failure;
    return std::string(text, ::strcspn(text, "\n"));
  };
  std::string text = text_of(*first_failed_);
  for (const RankProcess& process : ranks_) {
    if (text.empty()) text = text_of(process);
  }
  return text.empty() ? end_text(*first_failed_) : text;
}

int RankProcesses::finish() {
  if (first_failed_ == nullptr) return 0;
  const int status = *first_failed_->status;
  // Above 128: the rank saved and ended after a signal, which is not a failure.
  const bool stopped = WIFEXITED(status) && WEXITSTATUS(status) > 128;
  // With several launchers, that of rank 0 reports failures that every machine knows; a rank ended
  // by a signal is reported where it ran.
  const bool reports = options_.first_rank == 0 || WIFSIGNALED(status);
  if (!stopped && reports) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", shown_text(failure_text()).c_str());
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int run_ranks(const RankProcessOptions& options) {
  RankProcesses ranks(options);
  return ranks.run();
}

}  // namespace xrun
