#pragma once
// Seconds that a rank spends in its collectives, by label.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace xrun {

// Keeps when each call of a rank was under way and when the rank waited for it. What it did not
// wait for was hidden behind its work. Not thread-safe.
class CollectiveTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // One call: begun, complete on this rank, and the wait for it.
  struct TimedCall {
    std::string label;  // "gradients of bucket 3" counts as "gradients of bucket"
    int64_t bytes = 0;
    Clock::time_point begun, complete, wait_begun, wait_ended;
  };
  void add(TimedCall call) { calls_.push_back(std::move(call)); }

  // Returns when each call began, as bytes for table() of another rank.
  std::string begin_times() const;

  // Returns a line for each label, those with the longest waits first, and one for the sums. A call
  // is under way once all ranks have begun it; a wait before that is one for a late rank.
  //   of_ranks  begin_times() of all ranks of one machine, whose clocks agree; empty: this rank's
  //             alone, as if no rank were late
  // Throws Error if they do not belong to the same calls.
  std::string table(const std::vector<std::string>& of_ranks = {}) const;

 private:
  std::vector<TimedCall> calls_;
};

}  // namespace xrun
