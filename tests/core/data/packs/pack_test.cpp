// Packing equals the definition of best-fit-decreasing.

#include "core/data/packs/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/philox.h"
#include "tests/scratch_folder.h"

namespace xrun::pack_test {
namespace {

using Packs = std::vector<std::vector<int64_t>>;

// The definition itself: every item looks at every pack.
Packs plain_best_fit_decreasing(const std::vector<int64_t>& sizes, int64_t capacity) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  Packs packs;
  std::vector<int64_t> room;
  for (const size_t item : order) {
    size_t best = packs.size();
    for (size_t p = 0; p < packs.size(); ++p) {
      if (room[p] >= sizes[item] && (best == packs.size() || room[p] < room[best])) best = p;
    }
    if (best == packs.size()) {
      packs.emplace_back();
      room.push_back(capacity);
    }
    packs[best].push_back(static_cast<int64_t>(item));
    room[best] -= sizes[item];
  }
  for (std::vector<int64_t>& pack : packs) std::sort(pack.begin(), pack.end());
  std::sort(packs.begin(), packs.end());
  return packs;
}

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

// Many packs of equal room, empty items, capacities far beyond the items and below them.
TEST(BestFitDecreasing, MatchesItsDefinition) {
  const int64_t capacities[] = {1, 7, 64, 100, 4095, 4096, 100000, int64_t{1} << 40};
  for (uint64_t round = 0; round < 160; ++round) {
    const int64_t capacity = capacities[round % 8];
    const uint64_t limit =
        static_cast<uint64_t>(round % 3 == 0 ? std::min<int64_t>(capacity, 5) : capacity) + 1;
    std::vector<int64_t> sizes;
    for (uint64_t i = 0; i < 10 + round * 4; ++i) {
      const uint64_t bits = philox_u64(round, 98, i, 0);
      sizes.push_back(static_cast<int64_t>(bits % limit) >> (bits >> 60 & (round % 4)));
    }
    ASSERT_EQ(best_fit_decreasing(sizes, capacity), plain_best_fit_decreasing(sizes, capacity))
        << round;
  }
}

}  // namespace
}  // namespace xrun::pack_test
