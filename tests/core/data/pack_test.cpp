#include "core/data/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/philox.h"
#include "tests/core/data/scratch_folder.h"

namespace xrun {
namespace {

using Packs = std::vector<std::vector<int64_t>>;

TEST(BestFitDecreasing, FillsTheFullestPackThatHasRoom) {
  // 7 and 6 open packs; 4 goes to 6 (room 4), 3 to 7 (room 3).
  EXPECT_EQ(best_fit_decreasing(std::vector<int64_t>{3, 7, 4, 6}, 10), (Packs{{0, 1}, {2, 3}}));
}

TEST(BestFitDecreasing, BreaksTiesByTheLowerIndex) {
  EXPECT_EQ(best_fit_decreasing(std::vector<int64_t>{5, 5, 5, 5}, 10), (Packs{{0, 1}, {2, 3}}));
}

TEST(BestFitDecreasing, AcceptsAPackThatIsExactlyFull) {
  EXPECT_EQ(best_fit_decreasing(std::vector<int64_t>{10}, 10), (Packs{{0}}));
  EXPECT_EQ(best_fit_decreasing(std::vector<int64_t>{}, 10), Packs{});
}

TEST(BestFitDecreasing, NamesAnItemBeyondTheCapacity) {
  EXPECT_EQ(error_of([] {
              best_fit_decreasing(std::vector<int64_t>{3, 11}, 10);
            }),
            "packing: item 1 has size 11, the capacity is 10");
}

TEST(BestFitDecreasing, PutsEveryItemInOnePackWithinTheCapacity) {
  for (uint64_t round = 0; round < 50; ++round) {
    std::vector<int64_t> sizes;
    for (uint64_t i = 0; i < 200; ++i) {
      sizes.push_back(1 + static_cast<int64_t>(philox_u64(round, 99, i, 0) % 4096));
    }
    const Packs packs = best_fit_decreasing(sizes, 4096);
    std::vector<int> seen(sizes.size(), 0);
    int64_t last_first = -1;
    int half_full = 0;
    for (const std::vector<int64_t>& pack : packs) {
      int64_t total = 0;
      for (int64_t item : pack) {
        total += sizes[static_cast<size_t>(item)];
        ++seen[static_cast<size_t>(item)];
      }
      ASSERT_LE(total, 4096);
      ASSERT_TRUE(std::is_sorted(pack.begin(), pack.end()));
      ASSERT_GT(pack[0], last_first);
      last_first = pack[0];
      half_full += 2 * total <= 4096;
    }
    ASSERT_EQ(seen, std::vector<int>(sizes.size(), 1));
    ASSERT_LE(half_full, 1);  // two such packs would have become one
  }
}

}  // namespace
}  // namespace xrun
