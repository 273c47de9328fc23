#include "core/data/packs/shuffle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <unordered_set>
#include <vector>

#include "tests/core/data/rows/scratch_folder.h"

namespace xrun::shuffle_test {
namespace {

std::vector<uint64_t> order_of(uint64_t n, uint64_t seed, uint64_t epoch) {
  const Shuffle shuffle(n, seed, epoch);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < n; ++i) order.push_back(shuffle(i));
  return order;
}

TEST(Shuffle, IsABijectionOfAnySize) {
  std::vector<uint64_t> sizes = {1000, 31000};
  for (uint64_t n = 1; n <= 500; ++n) sizes.push_back(n);
  for (uint64_t n : sizes) {
    std::vector<bool> seen(n, false);
    for (uint64_t place : order_of(n, 5, 0)) {
      ASSERT_LT(place, n);
      ASSERT_FALSE(seen[place]) << n;
      seen[place] = true;
    }
  }
}

TEST(Shuffle, NeverGivesARowOfALargeSetTwice) {
  for (uint64_t n : {(uint64_t{1} << 40) - 87, (uint64_t{1} << 33) + 1}) {
    const Shuffle shuffle(n, 8, 1);
    std::unordered_set<uint64_t> seen;
    for (uint64_t k = 0; k < 200000; ++k) {
      const uint64_t place = shuffle(n / 200001 * k);
      ASSERT_LT(place, n);
      ASSERT_TRUE(seen.insert(place).second);
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
TEST(Shuffle, PutsEveryRowInEveryPositionEquallyOften) {
  std::vector<int> counts(36, 0);
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    const std::vector<uint64_t> order = order_of(6, seed, 0);
    for (size_t i = 0; i < 6; ++i) ++counts[i * 6 + order[i]];
  }
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);
}

// A random permutation has one fixed point on average, and a row's followers are no nearer to it
// than any other row: mean distance n / 3, of which 2,000 steps give 333 with a deviation of 5.3.
TEST(Shuffle, LeavesNoMoreRowsInPlaceOrSideBySideThanChance) {
  int fixed = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const std::vector<uint64_t> order = order_of(100, seed, 0);
    for (uint64_t i = 0; i < 100; ++i) fixed += order[i] == i;
  }
  EXPECT_NEAR(fixed, 1000, 5 * std::sqrt(1000.0));
  double distance = 0;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    const std::vector<uint64_t> order = order_of(1000, seed, 0);
    for (uint64_t i = 0; i + 1 < 1000; ++i) {
      distance += std::abs(static_cast<double>(order[i + 1]) - static_cast<double>(order[i]));
    }
  }
  EXPECT_NEAR(distance / 1998, 1001 / 3.0, 5 * 5.3);
}

}  // namespace
}  // namespace xrun::shuffle_test
