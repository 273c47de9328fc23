// A shuffle is a bijection of its rows, close to uniform, and a function of seed and epoch alone.

#include "core/data/packs/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>
#include <vector>

#include "tests/scratch_folder.h"

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
    for (uint64_t position : order_of(n, 5, 0)) {
      ASSERT_LT(position, n);
      ASSERT_FALSE(seen[position]) << n;
      seen[position] = true;
    }
  }
}

TEST(Shuffle, NeverGivesARowOfALargeSetTwice) {
  for (uint64_t n : {(uint64_t{1} << 40) - 87, (uint64_t{1} << 33) + 1}) {
    const Shuffle shuffle(n, 8, 1);
    std::unordered_set<uint64_t> seen;
    for (uint64_t k = 0; k < 200000; ++k) {
      const uint64_t position = shuffle(n / 200001 * k);
      ASSERT_LT(position, n);
      ASSERT_TRUE(seen.insert(position).second);
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
  EXPECT_EQ(error_of([] { Shuffle(10, 1, 0)(10); }), "a shuffle of 10 rows has no index 10");
  EXPECT_EQ(error_of([] { Shuffle(0, 1, 0)(0); }), "a shuffle of 0 rows has no index 0");
}

TEST(Shuffle, IsAFunctionOfSeedAndEpoch) {
  EXPECT_EQ(order_of(100, 1, 0), order_of(100, 1, 0));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 2, 0));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 1, 1));
  EXPECT_NE(order_of(100, uint64_t{1} << 40, 0), order_of(100, 0, 0));  // all 64 bits count
}

// Over many seeds each row gets each position about equally often: 6 rows, 6,000 seeds, 1,000
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

TEST(BlockShuffle, SlowNeverGivesARowOfALargeSetTwice) {
  for (const uint64_t n : {(uint64_t{1} << 40) + 12345, (uint64_t{1} << 32) + 1}) {
    const BlockShuffle shuffle(n, 256, 512, 3, 0);
    std::unordered_set<uint64_t> seen;
    for (uint64_t k = 0; k < 200000; ++k) {  // half of them side by side, half far apart
      const uint64_t index = k % 2 == 0 ? k / 2 : n / 110000 * (k / 2) + 200000;
      const uint64_t position = shuffle(index);
      ASSERT_LT(position, n);
      ASSERT_TRUE(seen.insert(position).second);
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

// Over many seeds every position of one window gets every row equally often: 24 rows, 4,800 seeds,
// 200 a cell expected; chi-square over 23 x 23 degrees of freedom has mean 529 and deviation 32.5.
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
  EXPECT_EQ(error_of([] { BlockShuffle(0, 4, 3, 1, 0)(0); }), "a shuffle of 0 rows has no index 0");
}

TEST(EpochOrder, IsFileOrderOrTheChosenShuffle) {
  const EpochOrder file({.kind = RowOrderKind::kFile}, 100, 1, 2, 3);
  const EpochOrder full({}, 100, 1, 2, 3);
  const EpochOrder blocks({RowOrderKind::kBlock, 8, 2}, 100, 1, 2, 3);
  for (int64_t i = 0; i < 100; ++i) {
    const uint64_t at = static_cast<uint64_t>(i);
    ASSERT_EQ(file(i), i);
    ASSERT_EQ(full(i), static_cast<int64_t>(Shuffle(100, 1, 2, 3)(at)));
    ASSERT_EQ(blocks(i), static_cast<int64_t>(BlockShuffle(100, 8, 2, 1, 2, 3)(at)));
  }
}

TEST(EpochOrder, RefusesAnEmptyBlockOrWindowAndAnIndexOutOfRange) {
  const auto order = [](int64_t block, int64_t window, int64_t index) {
    return error_of([&] { EpochOrder({RowOrderKind::kBlock, block, window}, 10, 0, 0)(index); });
  };
  EXPECT_EQ(order(0, 1, 0), "shuffle.block is 0, wanted at least 1 row");
  EXPECT_EQ(order(1, -1, 0), "shuffle.window is -1, wanted at least 1 block");
  EXPECT_EQ(order(1, 1, -1), "an order of 10 rows has no index -1");
  EXPECT_EQ(order(1, 1, 10), "an order of 10 rows has no index 10");
}

}  // namespace
}  // namespace xrun::shuffle_test
