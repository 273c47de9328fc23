// The process's memory and time are read as the kernel and the steady clock report them.

#include "core/base/process_usage.h"

#include <gtest/gtest.h>

#include <vector>

namespace xrun::process_usage_test {

TEST(ProcessUsage, ResidentBytesCountTouchedPages) {
  const int64_t before = resident_bytes();
  EXPECT_GT(before, 1 << 20);
  std::vector<char> touched(size_t{64} << 20, 1);
  EXPECT_GT(resident_bytes(), before + (int64_t{60} << 20)) << touched.size();
  // The system's two counts may differ by some pages.
  EXPECT_GT(peak_resident_bytes(), before + (int64_t{56} << 20));
}

TEST(ProcessUsage, MonotonicMillisecondsFollowTheSteadyClock) {
  const int64_t before = monotonic_ms();
  const SteadyClock::time_point begin = SteadyClock::now();
  while (seconds_since(begin) < 0.02) {
  }
  EXPECT_GE(monotonic_ms(), before + 19);
}

}  // namespace xrun::process_usage_test
