#pragma once
// Seconds that a rank spends in its collectives, by label.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace xrun {

// Adds up, for each label, how long a rank's collectives were under way and how long the rank
// waited for them. The difference was hidden behind its work. Not thread-safe.
class CollectiveTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // One call: begun, complete on this rank, and the wait for it. Calls of a label are added in the
  // order of their beginnings.
  struct TimedCall {
    std::string_view label;  // "gradients of bucket 3" counts as "gradients of bucket"
    int64_t bytes = 0;
    Clock::time_point begun, complete, wait_begun, wait_ended;
  };
  void add(const TimedCall& call);

  // A line for each label, those with the longest waits first, and one for the sums.
  std::string table() const;

 private:
  struct LabelTimes {
    int64_t calls = 0, bytes = 0;
    double under_way_s = 0, waited_s = 0;
    Clock::time_point covered;  // the time up to which under_way_s counts
  };
  std::map<std::string, LabelTimes, std::less<>> rows_;
};

}  // namespace xrun
