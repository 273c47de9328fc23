// Overlapping and nested collectives are not counted twice.

#include "core/dist/collective_times.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace xrun {
namespace collective_times_test {

CollectiveTimes::Clock::time_point at(int milliseconds) {
  return CollectiveTimes::Clock::time_point(std::chrono::milliseconds(milliseconds));
}

TEST(CollectiveTimes, CallsUnderWayTogetherCountOnce) {
  CollectiveTimes times;
  times.add({"gradients of bucket 1", 4000, at(0), at(300), at(200), at(300)});
  times.add({"gradients of bucket 0", 4000, at(100), at(400), at(300), at(400)});
  times.add({"metrics", 8, at(500), at(700), at(500), at(700)});
  const std::string table = times.table();
  EXPECT_NE(
      table.find("gradients of bucket                                2     8.0 KB     0.400 s   "
                 "0.200 s"),
      std::string::npos)
      << table;
  EXPECT_NE(
      table.find("all                                                3     8.0 KB     0.600 s   "
                 "0.400 s"),
      std::string::npos)
      << table;
}

TEST(CollectiveTimes, ACallInsideAnotherAddsNothing) {
  CollectiveTimes times;
  times.add({"bucket 1", 0, at(0), at(300), at(300), at(300)});
  times.add({"bucket 0", 0, at(100), at(200), at(300), at(300)});
  EXPECT_NE(times.table().find("0.300 s   0.000 s"), std::string::npos) << times.table();
}

TEST(CollectiveTimes, AWaitForALateRankIsNoCommunication) {
  CollectiveTimes early, late;
  early.add({"metrics", 8, at(0), at(500), at(100), at(500)});
  late.add({"metrics", 8, at(400), at(500), at(400), at(500)});
  const std::vector<std::string> both = {early.begin_times(), late.begin_times()};
  early.add({"times of collectives", 8, at(600), at(700), at(600), at(700)});
  const std::string table = early.table(both);
  EXPECT_NE(table.find("0.100 s   0.100 s         0.300 s\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("times of"), std::string::npos) << table;
}

TEST(CollectiveTimes, TimesOfOtherCallsAreRefused) {
  CollectiveTimes one, other;
  one.add({"metrics", 8, at(0), at(1), at(0), at(1)});
  EXPECT_THROW(one.table({one.begin_times(), other.begin_times()}), Error);
}

}  // namespace collective_times_test
}  // namespace xrun
