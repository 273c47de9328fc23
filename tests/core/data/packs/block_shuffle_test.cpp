#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>
#include <vector>

#include "core/data/packs/shuffle.h"
#include "tests/core/data/rows/scratch_folder.h"

namespace xrun::block_shuffle_test {
namespace {

std::vector<uint64_t> order_of(const BlockShuffle& shuffle, uint64_t n) {
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < n; ++i) order.push_back(shuffle(i));
  return order;
}

bool is_bijection(std::vector<uint64_t> order) {
  std::sort(order.begin(), order.end());
  for (uint64_t i = 0; i < order.size(); ++i) {
    if (order[i] != i) return false;
  }
  return true;
}

// The vector of the reference's test: 37 rows, blocks of 4, windows of 3 blocks.
TEST(BlockShuffle, LeavesThePartialBlockLast) {
  const BlockShuffle shuffle(37, 4, 3, 11, 0);
  const std::vector<uint64_t> order = order_of(shuffle, 37);
  EXPECT_EQ(order[36], 36u);
  EXPECT_TRUE(is_bijection(order));
  EXPECT_EQ(order, order_of(BlockShuffle(37, 4, 3, 11, 0), 37));
  EXPECT_NE(order, order_of(BlockShuffle(37, 4, 3, 12, 0), 37));
  EXPECT_NE(order, order_of(BlockShuffle(37, 4, 3, 11, 1), 37));
  EXPECT_NE(order, order_of(BlockShuffle(37, 4, 3, 11, 0, 2), 37));
}

TEST(BlockShuffle, IsABijectionOfEverySizeUpTo500) {
  for (uint64_t n = 0; n <= 500; ++n) {
    for (const auto& [block, window] : {std::pair{1, 1}, {4, 3}, {7, 1}, {3, 1000}, {600, 2}}) {
      const BlockShuffle shuffle(n, static_cast<uint64_t>(block), static_cast<uint64_t>(window), n,
                                 1);
      ASSERT_TRUE(is_bijection(order_of(shuffle, n))) << n << " " << block << " " << window;
    }
  }
}

TEST(BlockShuffle, IsABijectionOf31000Rows) {
  EXPECT_TRUE(is_bijection(order_of(BlockShuffle(31000, 256, 16, 1, 0), 31000)));
}

TEST(BlockShuffle, NeverGivesARowOfALargeSetTwice) {
  for (const uint64_t n : {(uint64_t{1} << 40) + 12345, (uint64_t{1} << 32) + 1}) {
    const BlockShuffle shuffle(n, 256, 512, 3, 0);
    std::unordered_set<uint64_t> seen;
    for (uint64_t k = 0; k < 200000; ++k) {  // half of them side by side, half far apart
      const uint64_t index = k % 2 == 0 ? k / 2 : n / 110000 * (k / 2) + 200000;
      const uint64_t place = shuffle(index);
      ASSERT_LT(place, n);
      ASSERT_TRUE(seen.insert(place).second);
    }
  }
}

TEST(BlockShuffle, OpensOneWindowOfWholeBlocksAtATime) {
  const BlockShuffle shuffle(1000, 10, 5, 4, 0);
  for (uint64_t window = 0; window < 20; ++window) {
    std::set<uint64_t> blocks;
    for (uint64_t i = window * 50; i < window * 50 + 50; ++i) blocks.insert(shuffle(i) / 10);
    EXPECT_EQ(blocks.size(), 5u);
  }
}

// Over many seeds every place of one window sees every row alike: 24 rows, 4,800 seeds, 200 a cell
// expected; chi-square over 23 x 23 degrees of freedom has mean 529 and deviation 32.5.
TEST(BlockShuffle, PutsEveryRowInEveryPositionEquallyOften) {
  std::vector<int> counts(24 * 24, 0);
  int fixed = 0;
  for (uint64_t seed = 0; seed < 4800; ++seed) {
    const BlockShuffle shuffle(24, 4, 6, seed, 0);
    for (uint64_t i = 0; i < 24; ++i) {
      ++counts[i * 24 + shuffle(i)];
      fixed += shuffle(i) == i;
    }
  }
  double chi = 0;
  for (const int count : counts) chi += (count - 200.0) * (count - 200.0) / 200;
  EXPECT_NEAR(chi, 23 * 23, 5 * 32.5);
  EXPECT_NEAR(fixed, 4800, 5 * std::sqrt(4800.0));  // one a permutation
}

TEST(BlockShuffle, RefusesAnIndexOutsideTheSet) {
  EXPECT_EQ(error_of([] { BlockShuffle(37, 4, 3, 1, 0)(37); }),
            "a shuffle of 37 rows has no index 37");
  EXPECT_NE(error_of([] { BlockShuffle(0, 4, 3, 1, 0)(0); }), "");
}

}  // namespace
}  // namespace xrun::block_shuffle_test
