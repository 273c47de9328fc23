// A plan places every unit once, shares prefixes within a pack and never exceeds its capacity.

#include "core/data/packs/pack_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/philox.h"
#include "core/data/packs/pack.h"
#include "tests/core/data/packs/prompted_sequence.h"
#include "tests/scratch_folder.h"

namespace xrun::pack_plan_test {
namespace {

using Ids = std::vector<int32_t>;
using Packs = std::vector<std::vector<int64_t>>;

// Units that own their tokens.
struct OwnedUnits {
  std::vector<std::vector<Ids>> ids;

  std::vector<UnitTokens> lists() const {
    std::vector<UnitTokens> units;
    for (const std::vector<Ids>& unit : ids) {
      units.emplace_back(unit.begin(), unit.end());
    }
    return units;
  }
};

PackLimits limits(int64_t max_tokens, int64_t min_run) {
  PackLimits limits(max_tokens);
  limits.fold = true;
  limits.min_run = min_run;
  return limits;
}

TEST(FoldedPacks, WithoutSharedPrefixesAreBestFitDecreasing) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    OwnedUnits units;
    std::vector<int64_t> sizes;
    const uint64_t count = 1 + static_cast<uint64_t>(40 * philox_unit(3, seed, 0, 0));
    for (uint64_t u = 0; u < count; ++u) {
      // All begin with the same three tokens, fewer than min_run.
      const size_t rest = static_cast<size_t>(30 * philox_unit(3, seed, 1, u));
      units.ids.push_back({prompted_sequence(7, 3, rest), prompted_sequence(7, 3, rest / 2)});
      sizes.push_back(static_cast<int64_t>(6 + rest + rest / 2));
    }
    EXPECT_EQ(plan_folded_packs(units.lists(), limits(60, 4)), best_fit_decreasing(sizes, 60))
        << "seed " << seed;
  }
}

TEST(FoldedPacks, UnitsThatShareAPrefixArePlacedTogether) {
  OwnedUnits units;
  for (int i = 0; i < 4; ++i) {
    for (const int32_t prompt : {1, 2}) units.ids.push_back({prompted_sequence(prompt, 100, 10)});
  }
  // A group of four computes 140 tokens; unfolded each pack would hold one sequence.
  EXPECT_EQ(plan_folded_packs(units.lists(), limits(140, 64)), (Packs{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(plan_folded_packs(units.lists(), limits(280, 64)), (Packs{{0, 1, 2, 3, 4, 5, 6, 7}}));
}

TEST(FoldedPacks, ALargeClusterIsDividedWhereItSharesLeast) {
  // All share a header of 64; units 0, 2, 4 share 40 more, and so do 1, 3, 5.
  OwnedUnits units;
  for (int i = 0; i < 3; ++i) {
    for (const int32_t group : {1, 2}) {
      Ids ids(64, 9);
      const Ids rest = prompted_sequence(group, 40, 20);
      ids.insert(ids.end(), rest.begin(), rest.end());
      units.ids.push_back({ids});
    }
  }
  // A group of three computes 164 tokens, three units of two groups 204, a pack of four more.
  EXPECT_EQ(plan_folded_packs(units.lists(), limits(204, 16)), (Packs{{0, 2, 4}, {1, 3, 5}}));
}

TEST(FoldedPacks, PartsOfADividedClusterFollowEachOther) {
  // A step computes the prefix of packs that follow each other once.
  OwnedUnits units;
  for (int i = 0; i < 4; ++i) {
    for (const int32_t prompt : {1, 2}) units.ids.push_back({prompted_sequence(prompt, 100, 10)});
  }
  EXPECT_EQ(plan_folded_packs(units.lists(), limits(120, 64)),
            (Packs{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
  // A part for each unit.
  EXPECT_EQ(plan_folded_packs(units.lists(), limits(110, 64)),
            (Packs{{0}, {2}, {4}, {6}, {1}, {3}, {5}, {7}}));
}

TEST(FoldedPacks, NamesAUnitThatDoesNotFitAlone) {
  OwnedUnits units;
  units.ids.push_back({prompted_sequence(1, 10, 2)});
  units.ids.push_back({prompted_sequence(2, 100, 20), prompted_sequence(2, 100, 30)});
  EXPECT_EQ(error_of([&] { plan_folded_packs(units.lists(), limits(149, 64)); }),
            "packing: unit 1 has 250 tokens, 150 with shared prefixes once; max_tokens is 149");
  EXPECT_EQ(plan_folded_packs(units.lists(), limits(150, 64)), (Packs{{0}, {1}}));
}

TEST(FoldedPacks, SegmentsOfDifferentLengthClassesShareNothing) {
  OwnedUnits units;
  units.ids.push_back({prompted_sequence(1, 100, 10), prompted_sequence(1, 100, 11)});
  PackLimits by_length = limits(400, 64);
  EXPECT_EQ(folded_tokens(units.lists(), by_length), 121);
  by_length.frequency_class = [](int64_t length) { return length; };
  EXPECT_EQ(folded_tokens(units.lists(), by_length), 221);
}

// Random trees of units with one or two segments.
OwnedUnits random_units(uint64_t seed) {
  OwnedUnits units;
  uint64_t draw = 0;
  const auto below = [&](size_t limit) {
    return static_cast<size_t>(philox_unit(5, seed, draw++, 0) * static_cast<double>(limit));
  };
  std::vector<Ids> all;
  for (size_t u = 1 + below(30); u > 0; --u) {
    std::vector<Ids> unit;
    for (size_t s = 1 + below(2); s > 0; --s) {
      Ids ids;
      if (!all.empty() && below(4) > 0) {
        const Ids& from = all[below(all.size())];
        ids.assign(from.begin(), from.begin() + static_cast<int64_t>(below(from.size() + 1)));
      }
      for (size_t n = below(12); n > 0; --n) ids.push_back(static_cast<int32_t>(below(3)));
      if (ids.size() > 40) ids.resize(40);
      all.push_back(ids);
      unit.push_back(ids);
    }
    units.ids.push_back(unit);
  }
  return units;
}

TEST(FoldedPacks, HoldEveryUnitOnceAndFitFor400RandomSteps) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const OwnedUnits units = random_units(seed);
    const std::vector<UnitTokens> lists = units.lists();
    const PackLimits limit = limits(80, 1 + static_cast<int64_t>(seed % 8));
    const Packs packs = plan_folded_packs(lists, limit);
    std::multiset<int64_t> seen;
    for (const std::vector<int64_t>& pack : packs) {
      ASSERT_TRUE(std::is_sorted(pack.begin(), pack.end()));
      seen.insert(pack.begin(), pack.end());
      std::vector<UnitTokens> chosen;
      for (const int64_t unit : pack) chosen.push_back(lists[static_cast<size_t>(unit)]);
      ASSERT_LE(folded_tokens(chosen, limit), 80) << "seed " << seed;
    }
    ASSERT_EQ(packs.front().front(), 0);
    std::multiset<int64_t> all;
    for (int64_t u = 0; u < std::ssize(lists); ++u) all.insert(u);
    ASSERT_EQ(seen, all) << "seed " << seed;
    ASSERT_EQ(plan_folded_packs(lists, limit), packs);
  }
}

TEST(FoldedPacks, OfNoUnitsAreNone) {
  EXPECT_EQ(plan_folded_packs({}, limits(10, 1)), Packs{});
  const std::vector<UnitTokens> empty(2);
  EXPECT_EQ(plan_folded_packs(empty, limits(10, 1)), (Packs{{0, 1}}));
}

}  // namespace
}  // namespace xrun::pack_plan_test
