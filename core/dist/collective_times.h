#pragma once
// Seconds that a rank spends in its collectives, by label.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace xrun {

// Keeps for each call of a rank when it was under way and when the rank waited for it. The rest of
// the call's time was hidden behind the rank's work. Not thread-safe.
class CollectiveTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // One call: begun, complete on this rank, and the wait for it.
  struct TimedCall {
    int64_t number = 0;  // of the call, the same on all ranks
    std::string label;   // "gradients of bucket 3" counts as "gradients of bucket"
    int64_t bytes = 0;
    Clock::time_point begun, complete, wait_begun, wait_ended;
  };
  void add(TimedCall call) { calls_.push_back(std::move(call)); }

  // Returns the times when the calls began, as bytes for table() on another rank.
  std::string begin_times() const;

  // Returns a line for each label, those with the longest waits first, and one for the sums. A call
  // is under way once all ranks have begun it; a wait before that is a wait for a late rank.
  //   of_ranks  begin_times() of all ranks of one machine, whose clocks agree; empty: only this
  //             rank's times, as if no rank were late
  // Throws Error if the ranks' times do not belong to the same calls.
  std::string table(const std::vector<std::string>& of_ranks = {}) const;

 private:
  std::vector<TimedCall> calls_;
};

}  // namespace xrun
