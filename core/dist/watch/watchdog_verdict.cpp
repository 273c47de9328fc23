// The watchdog's verdict: rank 0 judges all ranks, the others judge rank 0. The first verdict
// stands.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/base/process_usage.h"
#include "core/dist/watch/watch_message.h"
#include "core/dist/watch/watchdog.h"

namespace xrun {

namespace {

// Time for a rank to end by itself: to unwind an error, and to save a failed batch.
constexpr int64_t kUnwindMs = 5000;
constexpr int64_t kSaveMs = 60000;

}  // namespace

// Notes the first collective that a stopped rank will not join, for error_before().
void Watchdog::note_stops() {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const RankView& rank : ranks_) {
    if (rank.status.stopped != 0) least = std::min(least, rank.status.failed_at);
  }
  bool alone = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_at_ = least;
    alone = !stops_ && error_ && record_.read().begun > least;
  }
  if (alone && hooks_.left_alone) hooks_.left_alone();
}

// Every rank finds the same answer: a rank that has stopped makes no other collective until all
// know it.
std::optional<Stopped> Watchdog::compare_stops() {
  const int64_t mine = ranks_[env_.rank].status.failed_at;
  bool all = true, alike = true;
  most_begun_ = mine;
  for (const RankView& rank : ranks_) {
    if (rank.status.stopped == 0 && (rank.closed || rank.left)) return Stopped::kAlone;
    all = all && rank.status.stopped != 0;
    alike = alike && rank.status.failed_at == mine;
    most_begun_ = std::max(most_begun_, rank.status.failed_at);
  }
  if (!all) return std::nullopt;
  return alike ? Stopped::kTogether : Stopped::kApart;
}

// A rank that has seen the errors of all goes on, so errors later than this one count too.
std::optional<Stopped> Watchdog::compare_failures() const {
  const int64_t mine = ranks_[env_.rank].status.failed_at;
  bool all = true, waited_for = false;
  for (const RankView& rank : ranks_) {
    const RankStatus& status = rank.status;
    if (status.failed_at >= mine) continue;
    all = false;
    waited_for = waited_for || rank.closed || rank.left ||
                 (status.state == RankState::kWaiting && status.call >= mine);
  }
  // Undecided: a rank that is still computing may come to the same error.
  if (!all && !waited_for) return std::nullopt;
  return all ? Stopped::kTogether : Stopped::kAlone;
}

void Watchdog::compare_errors() {
  const int64_t mine = ranks_[env_.rank].status.failed_at;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Only a call that waits for the answer to this very error gets one.
    if (mine < 0 || mine != failed_at_ || answer_) return;
    answer_ = asks_to_stop_ ? compare_stops() : compare_failures();
  }
  changed_.notify_all();
}

// A rank that is lost while the ranks save after an error does not hide that error.
RankVerdict Watchdog::with_error(RankVerdict found) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!error_ || found.reported) return found;
  found.text = fmt::format("{}\n  the state was not saved: {}",
                           error_->text.substr(0, error_->text.find('\n')), found.text);
  found.rank = error_->rank;
  found.status = 1;
  return found;
}

void Watchdog::decide() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ranks_[0].failure = own_failure_;
    ranks_[0].failure_status = own_failure_status_;
  }
  if (const auto found = judge(ranks_, limits_, last_ms_)) {
    const RankVerdict verdict = with_error(*found);
    peers_.send(FrameKind::kVerdict, verdict_message(verdict));
    settle(verdict, /*reports=*/true);
    return;
  }
  const std::string notice = late_notice(ranks_, limits_, last_ms_);
  // Printed when a wait begins, not at every beat of it.
  if (!notice.empty() && last_notice_.empty() && hooks_.notice) hooks_.notice(notice);
  last_notice_ = notice;
}

void Watchdog::decide_about_rank_0() {
  // Judges only these two: the state of the others is known from rank 0 alone, and may be old.
  const auto found = judge({ranks_[0], ranks_[env_.rank]}, limits_, last_ms_);
  // Rank 0 judges all others. Its own end is judged elsewhere, by the ranks that would wait for it
  // forever.
  const bool gone = ranks_[0].closed && !ranks_[0].left;
  const bool silent = !ranks_[0].left && last_ms_ - ranks_[0].heard_ms >= limits_.silent_ms;
  const bool needed = ranks_[0].left && found && found->rank == 0;
  if (!gone && !silent && !needed) return;
  std::vector<RankView> views = ranks_;
  for (size_t r = 1; r < views.size(); ++r) views[r].heard_ms = last_ms_;  // only rank 0 hears them
  const auto verdict = judge(views, limits_, last_ms_);
  if (!verdict) return;
  // The lowest of the ranks that are left reports.
  int64_t reporter = 1;
  while (reporter < env_.rank && (views[reporter].closed || views[reporter].left)) ++reporter;
  settle(with_error(*verdict), reporter == env_.rank);
}

void Watchdog::settle(const RankVerdict& verdict, bool reports) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The first verdict stands: what comes later is its consequence.
    if (verdict_) return;
    verdict_ = verdict;
    reports_ = reports;
    // The launcher reads the record; a failure of this rank itself is in it already.
    if (reports && !failed_) record_.set_failure(verdict.text);
  }
  changed_.notify_all();
  const bool ends = !ends_by_itself(verdict, reports);
  // Rank 0 sends the verdict to all; the rank that reports the end of rank 0 has nobody to tell.
  if (ends && env_.rank == 0) peers_.say_goodbye();
  if (ends && hooks_.end) hooks_.end(verdict, reports);
}

// Waits as long as the main thread may still end the process.
bool Watchdog::ends_by_itself(const RankVerdict& verdict, bool reports) {
  constexpr std::chrono::milliseconds kCheckInterval{50};
  const auto waits = [&] { return record_.read().state == RankState::kWaiting; };
  const int64_t limit_ms = verdict.reported ? kSaveMs : (reports && waits() ? kUnwindMs : 0);
  const int64_t begin_ms = monotonic_ms();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    // The error is on its way up the main thread's stack, and the caller of fail() prints it.
    if (failed_) return reports;
    if (monotonic_ms() - begin_ms >= limit_ms || (!reports && waits())) return false;
    changed_.wait_for(lock, kCheckInterval);
  }
  // A main thread that ended without an error prints none, so the verdict must still be reported.
  return failed_;
}

}  // namespace xrun
