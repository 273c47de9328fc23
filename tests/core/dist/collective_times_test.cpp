// Overlapping and nested collectives are not counted twice.

#include "core/dist/collective_times.h"

#include <gtest/gtest.h>

namespace xrun {
namespace collective_times_test {

CollectiveTimes::Clock::time_point at(int milliseconds) {
  return CollectiveTimes::Clock::time_point(std::chrono::milliseconds(milliseconds));
}

TEST(CollectiveTimes, CallsUnderWayTogetherCountOnce) {
  CollectiveTimes times;
  times.add({1, "gradients of bucket 1", 4000, at(0), at(300), at(200), at(300)});
  times.add({2, "gradients of bucket 0", 4000, at(100), at(400), at(300), at(400)});
  times.add({3, "metrics", 8, at(500), at(700), at(500), at(700)});
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
  times.add({4, "bucket 1", 0, at(0), at(300), at(300), at(300)});
  times.add({5, "bucket 0", 0, at(100), at(200), at(300), at(300)});
  EXPECT_NE(times.table().find("0.300 s   0.000 s"), std::string::npos) << times.table();
}

TEST(CollectiveTimes, AWaitForALateRankIsNoCommunication) {
  CollectiveTimes early, late;
  early.add({0, "metrics", 8, at(0), at(500), at(100), at(500)});
  late.add({0, "metrics", 8, at(400), at(500), at(400), at(500)});
  const std::string table = early.table({early.begin_times(), late.begin_times()});
  EXPECT_NE(table.find("0.100 s   0.100 s         0.300 s\n"), std::string::npos) << table;
}

TEST(CollectiveTimes, CallsAreMatchedByTheirNumbers) {
  CollectiveTimes one, other;
  other.add({1, "weights", 8, at(0), at(1), at(0), at(1)});  // not waited for yet on the first rank
  one.add({2, "metrics", 8, at(0), at(500), at(100), at(500)});
  other.add({2, "metrics", 8, at(400), at(500), at(400), at(500)});
  const std::string table = one.table({one.begin_times(), other.begin_times()});
  EXPECT_NE(table.find("0.100 s   0.100 s         0.300 s\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("weights"), std::string::npos) << table;
}

}  // namespace collective_times_test
}  // namespace xrun
