#include "core/data/shuffle.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/core/data/scratch_folder.h"

namespace xrun {
namespace {

std::vector<uint64_t> order_of(uint64_t n, uint64_t seed, uint64_t epoch) {
  const Shuffle shuffle(n, seed, epoch);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < n; ++i) order.push_back(shuffle(i));
  return order;
}

TEST(Shuffle, IsABijectionOfAnySize) {
  for (uint64_t n : {1, 2, 3, 10, 63, 64, 65, 1000, 31000}) {
    std::vector<bool> seen(n, false);
    for (uint64_t place : order_of(n, 5, 0)) {
      ASSERT_LT(place, n);
      ASSERT_FALSE(seen[place]) << n;
      seen[place] = true;
    }
  }
}

TEST(Shuffle, ReachesIndicesBeyond32Bits) {
  const uint64_t size = uint64_t{1} << 34;
  const Shuffle shuffle(size, 1, 0);
  EXPECT_LT(shuffle(uint64_t{1} << 32), size);
  EXPECT_NE(shuffle(uint64_t{1} << 32), shuffle((uint64_t{1} << 32) + 1));
}

TEST(Shuffle, RefusesAnIndexOutsideTheSet) {
  EXPECT_NE(error_of([] { Shuffle(10, 1, 0)(10); }), "");
  EXPECT_NE(error_of([] { Shuffle(0, 1, 0)(0); }), "");
}

TEST(Shuffle, IsAFunctionOfSeedAndEpoch) {
  EXPECT_EQ(order_of(100, 1, 0), order_of(100, 1, 0));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 2, 0));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 1, 1));
  EXPECT_NE(order_of(100, uint64_t{1} << 40, 0), order_of(100, 0, 0));  // all 64 bits count
}

// Over many seeds each row comes to each place about equally often: 6 rows, 6,000 seeds, 1,000
// expected a cell with a standard deviation of 29; 150 is five of them.
TEST(Shuffle, GivesEveryPlaceEveryRowAlike) {
  std::vector<int> counts(36, 0);
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    const std::vector<uint64_t> order = order_of(6, seed, 0);
    for (size_t i = 0; i < 6; ++i) ++counts[i * 6 + order[i]];
  }
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace xrun
