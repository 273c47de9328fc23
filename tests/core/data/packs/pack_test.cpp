#include "core/data/packs/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
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

using Shares = std::vector<std::vector<int64_t>>;

int64_t cost_of(const std::vector<int64_t>& share, const std::vector<int64_t>& costs) {
  int64_t cost = 0;
  for (const int64_t pack : share) cost += costs[static_cast<size_t>(pack)];
  return cost;
}

int64_t heaviest(const Shares& shares, const std::vector<int64_t>& costs) {
  int64_t most = 0;
  for (const std::vector<int64_t>& share : shares) most = std::max(most, cost_of(share, costs));
  return most;
}

// The smallest cost of the heaviest rank over all assignments that respect the counts.
int64_t best_possible(const std::vector<int64_t>& costs, size_t ranks, size_t pack,
                      Shares& shares) {
  if (pack == costs.size()) {
    for (const std::vector<int64_t>& share : shares) {
      if (share.size() < costs.size() / ranks) return std::numeric_limits<int64_t>::max();
    }
    return heaviest(shares, costs);
  }
  int64_t best = std::numeric_limits<int64_t>::max();
  for (std::vector<int64_t>& share : shares) {
    if (share.size() > (costs.size() - 1) / ranks) continue;
    share.push_back(static_cast<int64_t>(pack));
    best = std::min(best, best_possible(costs, ranks, pack + 1, shares));
    share.pop_back();
  }
  return best;
}

TEST(PackCost, CountsTokensOrTheSquaresOfSegments) {
  const std::vector<int64_t> lengths = {3, 4, 0, 5};
  EXPECT_EQ(pack_cost(PackCost::kTokens, lengths), 12);
  EXPECT_EQ(pack_cost(PackCost::kTokensSquared, lengths), 50);
  EXPECT_EQ(pack_cost(PackCost::kTokens, {}), 0);
}

TEST(PackCost, SaturatesBeyondInt64) {
  const std::vector<int64_t> lengths = {int64_t{1} << 40, 5};
  EXPECT_EQ(pack_cost(PackCost::kTokensSquared, lengths), std::numeric_limits<int64_t>::max());
  EXPECT_NE(error_of([] { pack_cost(PackCost::kTokens, std::vector<int64_t>{-1}); }), "");
}

TEST(ShareOut, GivesTheCostliestPackToTheLightestRank) {
  const std::vector<int64_t> costs = {1, 9, 5, 4};
  EXPECT_EQ(share_out(costs, 2), (Shares{{0, 1}, {2, 3}}));
}

TEST(ShareOut, BreaksTiesByTheLowerPackAndTheLowerRank) {
  EXPECT_EQ(share_out(std::vector<int64_t>{7, 7, 7, 7, 7}, 3), (Shares{{0, 3}, {1, 4}, {2}}));
}

TEST(ShareOut, LeavesRanksEmptyIfThereAreFewerPacks) {
  EXPECT_EQ(share_out(std::vector<int64_t>{7, 8}, 4), (Shares{{1}, {0}, {}, {}}));
  EXPECT_EQ(share_out(std::vector<int64_t>{}, 2), (Shares{{}, {}}));
}

TEST(ShareOut, EveryPackIsAtOneRankAndCountsDifferByAtMostOne) {
  for (uint64_t round = 0; round < 200; ++round) {
    const int64_t ranks = 1 + static_cast<int64_t>(round % 9);
    std::vector<int64_t> costs;
    for (uint64_t i = 0; i < round; ++i) {
      costs.push_back(static_cast<int64_t>(philox_u64(round, 97, i, 0) % 1000));
    }
    std::vector<int> seen(costs.size(), 0);
    size_t fewest = costs.size(), most = 0;
    for (const std::vector<int64_t>& share : share_out(costs, ranks)) {
      fewest = std::min(fewest, share.size());
      most = std::max(most, share.size());
      ASSERT_TRUE(std::is_sorted(share.begin(), share.end()));
      for (const int64_t pack : share) ++seen[static_cast<size_t>(pack)];
    }
    ASSERT_EQ(seen, std::vector<int>(costs.size(), 1));
    ASSERT_LE(most - std::min(fewest, most), 1u);
  }
}

TEST(ShareOut, IsWithinAThirdOfTheBestPossible) {
  for (uint64_t round = 0; round < 300; ++round) {
    const size_t ranks = 2 + round % 2;
    std::vector<int64_t> costs;
    for (uint64_t i = 0; i < 4 + round % 5; ++i) {
      costs.push_back(1 + static_cast<int64_t>(philox_u64(round, 96, i, 0) % 100));
    }
    Shares empty(ranks);
    const int64_t best = best_possible(costs, ranks, 0, empty);
    const int64_t got = heaviest(share_out(costs, static_cast<int64_t>(ranks)), costs);
    ASSERT_LE(3 * got, 4 * best) << round;
  }
}

TEST(ShareOut, RefusesZeroRanksAndNegativeCosts) {
  EXPECT_EQ(error_of([] { share_out(std::vector<int64_t>{1}, 0); }),
            "distributing packs: 0 ranks, wanted at least 1");
  EXPECT_EQ(error_of([] {
              share_out(std::vector<int64_t>{1, -2}, 2);
            }),
            "distributing packs: pack 1 costs -2, wanted at least 0");
}

}  // namespace
}  // namespace xrun::pack_test
