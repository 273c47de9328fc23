// The watchdog's thread alone uses the connections and the views. Everything below mutex_ in the
// header is shared with the main thread. watchdog_verdict.cpp judges the views.

#include "core/dist/watch/watchdog.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/dist/watch/process_work.h"
#include "core/dist/watch/watch_message.h"

namespace xrun {

namespace {

constexpr int kBeatMs = 250;
constexpr int64_t kOwnPauseMs = 2000;  // a longer gap means that this process was stopped
// Limits for a failing run: the verdict of rank 0, the answers of fails_together() and
// stop_together().
constexpr double kReplyS = 3;
constexpr std::chrono::seconds kTogether{10};
constexpr std::chrono::seconds kStop{60};  // a rank may be computing
// ask_line interrupts Lua, so it is called only after this long without a call into the engine.
constexpr int64_t kAskLineMs = 3000;
// Checked only after this long without activity, since the check reads a file for each thread.
constexpr int64_t kOutsideCheckMs = 2000;
constexpr int64_t kClockMs = 60000;  // clocks of machines may differ by this
// All tables together grow with the square of the ranks; this holds them below 10 MB/s.
constexpr int64_t kTableBytesPerMs = 10000;

int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Machines do not share CLOCK_MONOTONIC: a time travels as its age.
RankStatus aged(RankStatus status, int64_t now_ms) {
  status.since_ms = now_ms - status.since_ms;
  return status;
}

void wake(const Socket& event) {
  const uint64_t one = 1;
  if (::write(event.fd(), &one, sizeof one) < 0) {
    // The counter is full, so the thread is awake already.
  }
}

}  // namespace

Watchdog::Watchdog(const RankEnvironment& env, FlightRecord& record, WatchConnection connection,
                   WatchdogHooks hooks, const WatchLimits& limits)
    : env_(env),
      record_(record),
      hooks_(std::move(hooks)),
      limits_(limits),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      peers_(env, std::move(connection.socket), connection.run_id),
      ranks_(env.world_size),
      last_ms_(monotonic_ms()) {
  ::pthread_getcpuclockid(::pthread_self(), &main_cpu_);
  main_thread_ = ::syscall(SYS_gettid);
  for (RankView& rank : ranks_) {
    // Ranks join one after the other, so their limits count from here.
    rank.heard_ms = rank.active_ms = rank.alive_ms = rank.status.since_ms = last_ms_;
  }
  if (env.rank != 0) {
    peers_.send(FrameKind::kHello,
                message_bytes(WatchHello{connection.run_id, env.rank, unix_ms()}));
  }
  // The main thread handles signals. The new thread inherits the mask, so the mask is set around
  // its start.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  wake(wake_);
  thread_.join();
}

std::optional<RankVerdict> Watchdog::verdict() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return verdict_;
}

std::optional<RankVerdict> Watchdog::await_verdict(double seconds) const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return verdict_.has_value(); });
  return verdict_;
}

void Watchdog::fail(int status, const std::string& message) {
  bool told = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    told = told_;
    // The rank that was the first to stop reports its error itself.
    if (!told) {
      own_failure_ = message;
      own_failure_status_ = status;
      if (asks_to_stop_ && !answer_) {
        own_failure_ += fmt::format(
            "\n  the state was not saved: another rank did not stop its step within {} s",
            kStop.count());
      }
    }
  }
  changed_.notify_all();
  // An error that comes after a verdict is a consequence of it and is not sent.
  if (told) {
    await_verdict(kReplyS);
  } else if (!verdict()) {
    const RankFault fault = fault_in(env_.rank, env_.world_size, message);
    record_.set_failure(fmt::format("rank {} of {}: {}: {}", fault.rank, env_.world_size,
                                    step_text(record_.read()), fault.what));
    wake(wake_);
    await_verdict(kReplyS);
  }
  // The rank that reports prints the error; the watchdog's thread ends the others.
  while (verdict() && !reports_) ::pause();
}

Stopped Watchdog::await_errors(std::unique_lock<std::mutex>& lock, std::chrono::seconds limit) {
  answer_.reset();
  record_.note_error(stops_);
  failed_at_ = record_.read().failed_at;
  wake(wake_);
  changed_.wait_for(lock, limit, [&] { return answer_ || verdict_; });
  return verdict_ ? Stopped::kAlone : answer_.value_or(Stopped::kAlone);
}

bool Watchdog::fails_together() {
  std::unique_lock<std::mutex> lock(mutex_);
  asks_to_stop_ = false;
  // Another rank has stopped and will not go on with the next collective.
  if (told_ && !stops_) return false;
  return await_errors(lock, kTogether) == Stopped::kTogether;
}

Stopped Watchdog::stop_together(const std::string& message) {
  std::unique_lock<std::mutex> lock(mutex_);
  own_error_ = message;
  stops_ = asks_to_stop_ = true;
  const Stopped answer = await_errors(lock, kStop);
  if (answer == Stopped::kApart) record_.renumber(most_begun_);
  return answer;
}

std::optional<RankVerdict> Watchdog::error_before(int64_t call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // After stop_together() the ranks make collectives with each other again.
  if (stops_ || !error_ || call < stopped_at_) return std::nullopt;
  told_ = true;
  return error_;
}

void Watchdog::run() {
  while (true) {
    // A frame or wake() ends the wait early; without either the next beat is on time.
    const int64_t due_ms = beat_ms_ + kBeatMs - monotonic_ms();
    peers_.await(wake_.fd(), static_cast<int>(std::clamp<int64_t>(due_ms, 0, kBeatMs)));
    uint64_t count;
    // Drained, since a readable event would end every later poll at once.
    while (::read(wake_.fd(), &count, sizeof count) > 0) {
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) break;
    }
    beat();
  }
  leave();
}

void Watchdog::beat() {
  const int64_t now_ms = monotonic_ms();
  // A stopped process (SIGSTOP, a suspended machine) heard nobody meanwhile, which does not mean
  // that the others were silent.
  if (const int64_t gap_ms = now_ms - last_ms_; gap_ms > kOwnPauseMs) {
    for (RankView& rank : ranks_) {
      rank.heard_ms += gap_ms;
      rank.active_ms += gap_ms;
      rank.alive_ms += gap_ms;
    }
  }
  last_ms_ = now_ms;
  peers_.receive([&](int64_t rank, const Frame& frame) { take(rank, frame); },
                 [&](int64_t rank) { ranks_[rank].closed = true; });
  // This rank judges itself from the same record that it sends to the others.
  ranks_[env_.rank].update(own_status(), now_ms);
  if (now_ms - beat_ms_ >= kBeatMs) send_beat();
  send_error();
  send_failure();
  if (verdict()) return;
  note_stops();
  compare_errors();
  if (env_.rank == 0) {
    decide();
  } else {
    decide_about_rank_0();
  }
}

void Watchdog::take(int64_t rank, const Frame& frame) {
  const int64_t now_ms = monotonic_ms();
  if (frame.kind == FrameKind::kHello) return take_hello(rank, frame.body);
  RankView& sender = ranks_[rank];
  sender.heard_ms = now_ms;
  switch (frame.kind) {
    case FrameKind::kStatus: {
      RankStatus status;
      if (!read_message_bytes(frame.body, 0, status)) return;
      sender.update(aged(status, now_ms), now_ms);
      return;
    }
    case FrameKind::kFailure:
      if (!read_message_bytes(frame.body, 0, sender.failure_status)) return;
      sender.failure = frame.body.substr(sizeof(int));
      return;
    case FrameKind::kLeave: sender.left = true; return;
    case FrameKind::kTable: take_table(frame.body); return;
    case FrameKind::kVerdict: {
      if (const auto verdict = read_verdict(frame.body)) settle(*verdict, /*reports=*/false);
      return;
    }
    case FrameKind::kError: {
      if (env_.rank == 0) return set_error(rank, frame.body);
      const std::lock_guard<std::mutex> lock(mutex_);
      error_ = read_verdict(frame.body);
      return;
    }
    case FrameKind::kHello: return;
  }
}

void Watchdog::take_hello(int64_t rank, const std::string& body) {
  WatchHello hello{};
  if (!read_message_bytes(body, 0, hello)) return;
  const int64_t off_ms = std::abs(unix_ms() - hello.unix_ms);
  if (off_ms <= kClockMs) return;
  ranks_[rank].failure = fmt::format(
      "its clock is {} s away from that of rank 0; set the clocks of the machines (NTP)",
      off_ms / 1000);
}

void Watchdog::take_table(const std::string& body) {
  const int64_t now_ms = monotonic_ms();
  WatchTableRow row;
  for (size_t r = 0; r < ranks_.size() && read_message_bytes(body, r, row); ++r) {
    // This rank knows its own status better than rank 0 does.
    if (static_cast<int64_t>(r) == env_.rank) continue;
    ranks_[r].update(aged(row.status, now_ms), now_ms);
    ranks_[r].closed = row.closed != 0;
    ranks_[r].left = row.left != 0;
  }
}

RankStatus Watchdog::own_status() {
  RankStatus out = record_.read();
  out.activity = activity_count();
  out.in_lua = in_lua() ? 1 : 0;
  timespec cpu{};
  // Waiting for a processor counts as running: a starved process is alive.
  out.cpu_ms = runnable_ms(main_thread_);
  if (out.cpu_ms < 0 && ::clock_gettime(main_cpu_, &cpu) == 0) {
    out.cpu_ms = int64_t{cpu.tv_sec} * 1000 + cpu.tv_nsec / 1000000;
  }
  out.work_ms = other_threads_cpu_ms();
  const RankView& own = ranks_[env_.rank];
  out.outside = last_ms_ - own.active_ms > kOutsideCheckMs && waits_for_outside() ? 1 : 0;
  if (hooks_.ask_line && out.in_lua != 0 && out.state == RankState::kComputing &&
      last_ms_ - own.active_ms > kAskLineMs) {
    hooks_.ask_line();
  }
  return out;
}

// Sends rank 0 this rank's status at the beginning of the beat.
void Watchdog::send_status() {
  peers_.send(FrameKind::kStatus, message_bytes(aged(ranks_[env_.rank].status, last_ms_)));
}

// Sends the error that stops this rank once, with the status that says so.
void Watchdog::send_error() {
  std::string message;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!own_error_) return;
    message = *std::exchange(own_error_, std::nullopt);
  }
  if (env_.rank == 0) return set_error(0, message);
  send_status();
  peers_.send(FrameKind::kError, message);
}

// On rank 0: the first error of a rank becomes that of all.
void Watchdog::set_error(int64_t rank, const std::string& message) {
  RankVerdict error = failed_rank(ranks_, rank, message, last_ms_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_) return;
    error_ = error;
  }
  peers_.send(FrameKind::kError, verdict_message(error));
  peers_.send(FrameKind::kTable, table());
}

std::string Watchdog::table() const {
  std::string out;
  for (const RankView& rank : ranks_) {
    out += message_bytes(WatchTableRow{aged(rank.status, last_ms_), rank.closed, rank.left});
  }
  return out;
}

// Sends this rank's own failure once; rank 0 reads its own in decide().
void Watchdog::send_failure() {
  if (env_.rank == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (own_failure_status_ == 0) return;
  // The report names the step of the error, not that of the last beat.
  send_status();
  peers_.send(FrameKind::kFailure, message_bytes(own_failure_status_) + own_failure_);
  own_failure_status_ = 0;
}

void Watchdog::send_beat() {
  beat_ms_ = last_ms_;
  if (env_.rank != 0) return send_status();
  // n ranks receive n rows each, so with many ranks the table goes out less often than the beat.
  const int64_t bytes =
      static_cast<int64_t>(sizeof(WatchTableRow)) * env_.world_size * env_.world_size;
  const bool due = last_ms_ - table_ms_ >= std::max<int64_t>(kBeatMs, bytes / kTableBytesPerMs);
  if (due) table_ms_ = last_ms_;
  // An empty table still shows that rank 0 is alive.
  peers_.send(FrameKind::kTable, due ? table() : "");
}

void Watchdog::leave() {
  record_.leave();
  ranks_[env_.rank].status = record_.read();
  last_ms_ = monotonic_ms();
  if (env_.rank != 0) {
    send_status();
  } else {
    peers_.send(FrameKind::kTable, table());
  }
  peers_.send(FrameKind::kLeave, "");
  peers_.say_goodbye();
}

}  // namespace xrun
