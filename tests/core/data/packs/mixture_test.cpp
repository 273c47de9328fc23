// A mixture gives every source its share of each block and stage, meets quotas to the row, and
// neither skips nor repeats a row.

#include "core/data/packs/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/scratch_folder.h"

namespace xrun::mixture_test {
namespace {

// In Levanter's unshuffled blocks one source follows another; here they alternate, with the same
// counts per block.
TEST(Mixture, UnshuffledSourcesTakeTurnsByTheirWeights) {
  const Mixture mixture({0.5, 0.3, 0.2}, 0, false, 10);
  std::string sources;
  for (int64_t i = 0; i < 20; ++i) sources += std::to_string(mixture(i).source);
  EXPECT_EQ(sources, "01200102100120010210");
  EXPECT_EQ(mixture.length_for(0, 5), 10);
  EXPECT_EQ(mixture.length_for(2, 5), 23);
  EXPECT_EQ(mixture(28).source, 1);
  EXPECT_EQ(mixture(28).draw, 8);
}

TEST(Mixture, UnshuffledSourcesStayWithinThreeRowsOfTheirShare) {
  const Mixture mixture({1, 7, 20}, 0, false);
  double drawn[3] = {0, 0, 0};
  for (int64_t i = 0; i < 3 * Mixture::kBlock; ++i) {
    ++drawn[mixture(i).source];
    for (size_t d = 0; d < 3; ++d) {
      const double share = static_cast<double>(i + 1) * (d == 0 ? 1 : d == 1 ? 7 : 20) / 28;
      ASSERT_LT(std::abs(drawn[d] - share), 2.5) << i << " " << d;
    }
  }
}

// Levanter's test of stages: two sources of five rows, weights 0.5 and 0.5, from row 20 on 1 and 0.
TEST(Mixture, StagesAfterTheEndDoNotChangeTheLength) {
  const Mixture mixture({{0, {0.5, 0.5}}, {20, {1, 0}}}, 1, 0, false, 10);
  EXPECT_EQ(mixture.length_for(0, 5), 9);
  EXPECT_EQ(mixture.length_for(1, 5), 10);  // all_exhausted
  const Mixture handed_over({{0, {1, 0}}, {10, {0, 1}}}, 1, 0, false, 10);
  EXPECT_EQ(handed_over.length_for(0, 5), 5);  // first_exhausted
  EXPECT_EQ(handed_over.draws_of(0), 10);
  EXPECT_EQ(handed_over.length_for(0, 11), std::nullopt);
  EXPECT_EQ(handed_over.length_for(1, 5), 15);
}

// As in Levanter, a stage at step 10 begins with row 100 if a step has 10 rows. (Its schedules of
// batch sizes have no equivalent here.)
TEST(Mixture, AStageStartsAtItsStep) {
  const Mixture mixture({{0, {1, 0}}, {10, {0, 1}}}, 10, 3, true);
  EXPECT_EQ(mixture(99).source, 0);
  EXPECT_EQ(mixture(100).source, 1);
  EXPECT_LT(mixture(100).draw, Mixture::kBlock) << "not of the source's first block";
}

TEST(Mixture, OneStageEqualsTheMixtureOfItsWeights) {
  const Mixture plain({2, 3, 1}, 9, true, 64);
  const Mixture staged({{0, {2, 3, 1}}}, 5, 9, true, 64);
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(plain(i).source, staged(i).source);
    ASSERT_EQ(plain(i).draw, staged(i).draw);
  }
}

TEST(Mixture, EveryBlockHoldsItsShareOfEverySource) {
  const Mixture mixture({1, 3}, 7, true);
  for (int64_t block = 0; block < 3; ++block) {
    std::set<int64_t> draws[2];
    for (int64_t i = 0; i < Mixture::kBlock; ++i) {
      const Mixture::Draw draw = mixture(block * Mixture::kBlock + i);
      draws[draw.source].insert(draw.draw);
    }
    EXPECT_EQ(draws[0].size(), 512u);
    EXPECT_EQ(draws[1].size(), 1536u);
    EXPECT_EQ(*draws[0].begin(), block * 512);
    EXPECT_EQ(*draws[1].rbegin(), (block + 1) * 1536 - 1);
  }
}

// Levanter gives the rows left over in a block to the heaviest source; the largest remainder keeps
// every share within one row.
TEST(Mixture, ABlockIsSharedOutByLargestRemainder) {
  const Mixture mixture({0.26, 0.26, 0.48}, 0, false, 10);
  std::map<int32_t, int> counts;
  for (int64_t i = 0; i < 10; ++i) ++counts[mixture(i).source];
  EXPECT_EQ(counts, (std::map<int32_t, int>{{0, 3}, {1, 2}, {2, 5}}));
}

// Every source's draws are 0, 1, 2, ... over all stages, wherever these begin.
TEST(Mixture, NoDrawIsSkippedOrRepeatedAcrossStages) {
  for (const int64_t step_rows : {1, 7, 10, 33}) {
    for (const bool shuffle : {false, true}) {
      const Mixture mixture({{0, {3, 1, 0}}, {13, {1, 1, 1}}, {17, {0, 1, 2}}, {60, {1, 0, 1}}},
                            step_rows, 5, shuffle, 16);
      std::map<int32_t, std::set<int64_t>> draws;
      const int64_t end = 60 * step_rows + 16 * 3;  // whole blocks of the last stage
      for (int64_t i = 0; i < end; ++i) {
        const Mixture::Draw draw = mixture(i);
        ASSERT_TRUE(draws[draw.source].insert(draw.draw).second) << i;
      }
      for (const auto& [source, seen] : draws) {
        ASSERT_EQ(*seen.begin(), 0);
        ASSERT_EQ(*seen.rbegin(), std::ssize(seen) - 1) << source << " " << step_rows;
      }
      ASSERT_EQ(mixture.draws_of(1), std::ssize(draws[1]));
      ASSERT_EQ(mixture.draws_of(0), std::nullopt);
    }
  }
}

TEST(Mixture, AStageHoldsItsOwnShares) {
  const Mixture mixture({{0, {1, 1}}, {50, {1, 4}}}, 10, 5, true, 64);
  std::map<int32_t, int> before, after;
  for (int64_t i = 0; i < 500; ++i) ++before[mixture(i).source];
  for (int64_t i = 500; i < 1140; ++i) ++after[mixture(i).source];
  EXPECT_EQ(before[0], 250);
  EXPECT_EQ(after[0], 130);  // 13 of each 64
}

TEST(Mixture, AStreamHoldsTheRequestedDraws) {
  const Mixture mixtures[] = {{{1, 3}, 7, true}, {{{0, {1, 3}}, {40, {3, 1}}}, 25, 7, true, 64}};
  for (const Mixture& mixture : mixtures) {
    for (const int64_t wanted : {1, 200, 250, 257, 700}) {
      const int64_t length = *mixture.length_for(0, wanted);
      std::set<int64_t> draws;
      for (int64_t i = 0; i < length; ++i) {
        if (mixture(i).source == 0 && mixture(i).draw < wanted) draws.insert(mixture(i).draw);
      }
      EXPECT_EQ(std::ssize(draws), wanted);
      EXPECT_EQ(mixture(length - 1).source, 0);
      EXPECT_LT(mixture(length - 1).draw, wanted);
    }
  }
}

TEST(Mixture, RefusesWeightsThatAreNeverDrawnOrNegative) {
  const auto error = [](const std::vector<double>& weights) {
    return error_of([&] { Mixture(weights, 0, true); });
  };
  EXPECT_EQ(error({1, 1e-5}),
            "data[2].weight is 1e-05 of 1.00001: less than one row in 2048, so it is never drawn; "
            "raise it, or set it to 0");
  EXPECT_EQ(error({0, 0}),
            "no source of data has a weight above 0, so no row is ever drawn; give at least one of "
            "them a weight above 0");
  EXPECT_EQ(error({1, -1}), "data[2].weight is -1, wanted a finite number >= 0");
}

TEST(Mixture, NamesTheStageOfAWeightThatIsNeverDrawn) {
  EXPECT_EQ(error_of([] {
              Mixture({{0, {1, 1}}, {5, {1, 0.01}}, {6, {1, 1}}}, 8, 0, true);
            }),
            "mixture.stages[2].weights[2] is 0.01: less than one row in 8, so it is never drawn; "
            "raise it, or set it to 0");
}

TEST(Mixture, RefusesStagesOutOfOrder) {
  const auto error = [](const std::vector<MixtureStage>& stages) {
    return error_of([&] { Mixture(stages, 4, 0, true); });
  };
  EXPECT_EQ(error({{1, {1, 1}}}),
            "mixture.stages[1].start is 1, wanted 0: the first stage starts at step 0");
  EXPECT_EQ(error({{0, {1, 1}}, {9, {1, 2}}, {9, {2, 1}}}),
            "mixture.stages[3].start is 9, wanted a step after 9, the start of the previous "
            "stage");
  EXPECT_EQ(
      error({{0, {1, 1}}, {9, {1}}}),
      "mixture.stages[2].weights has 1 number, data has 2 sources; give one weight per source");
  EXPECT_EQ(error({{0, {1, -1}}}),
            "mixture.stages[1].weights[2] is -1, wanted a finite number >= 0");
  EXPECT_EQ(error({{0, {0, 0}}}),
            "mixture.stages[1].weights add up to 0, wanted a finite sum above 0");
  EXPECT_EQ(error({{0, {1, 1}}, {int64_t{1} << 61, {1, 1}}}),
            "mixture.stages[2].start is 2305843009213693952, beyond 2^62 rows");
}

TEST(Mixture, ReachesIndicesFarBeyondManyStages) {
  std::vector<MixtureStage> stages;
  for (int64_t s = 0; s < 1000; ++s) stages.push_back({s * 1000, {1.0 + (s % 3), 2}});
  const Mixture mixture(stages, 8, 1, true);
  const int64_t far = int64_t{1} << 52;
  EXPECT_NE(mixture(far).draw, mixture(far + 1).draw);
  EXPECT_GT(mixture(far).draw, far / 4);
}

Mixture round_robin(std::vector<double> weights, std::vector<int64_t> quotas = {}) {
  MixturePlan plan{.stages = {{0, std::move(weights)}}};
  plan.order = MixtureOrder::kRoundRobin;
  plan.quotas = std::move(quotas);
  return Mixture(plan);
}

std::string letters(const Mixture& mixture, int64_t rows) {
  std::string text;
  for (int64_t i = 0; i < rows; ++i) text += static_cast<char>('A' + mixture(i).source);
  return text;
}

// nmoe's order, computed row by row: credits of the sources that have not met their quotas.
std::string row_by_row(std::vector<int64_t> weights, std::vector<int64_t> quotas, int64_t rows) {
  std::vector<int64_t> credit(weights.size(), 0), drawn(weights.size(), 0);
  std::string text;
  while (std::ssize(text) < rows) {
    const int64_t total = std::accumulate(weights.begin(), weights.end(), int64_t{0});
    for (size_t d = 0; d < weights.size(); ++d) credit[d] += weights[d];
    size_t most = 0;
    for (size_t d = 1; d < weights.size(); ++d) {
      if (credit[d] > credit[most]) most = d;
    }
    credit[most] -= total;
    text += static_cast<char>('A' + most);
    if (++drawn[most] != quotas[most]) continue;
    weights[most] = 0;
    std::fill(credit.begin(), credit.end(), 0);
  }
  return text;
}

TEST(Mixture, ARoundRobinIsSmooth) {
  EXPECT_EQ(letters(round_robin({5, 1, 1}), 14), "AABACAAAABACAA");
  EXPECT_EQ(letters(round_robin({0.5, 0.25, 0, 0.25}), 8), "ABDAABDA");
  EXPECT_EQ(letters(round_robin({3, 2, 7}), 500), row_by_row({3, 2, 7}, {-1, -1, -1}, 500));
  // In millionths of the sum: no multiple up to 1,000 is whole.
  EXPECT_EQ(letters(round_robin({1, std::sqrt(2.0)}), 3000),
            row_by_row({414214, 585786}, {-1, -1}, 3000));
  const Mixture mixture = round_robin({5, 1, 1});
  EXPECT_EQ(mixture(7'000'003).source, 0);
  EXPECT_EQ(mixture(7'000'003).draw, 5'000'002);
  EXPECT_EQ(mixture.length_for(1, 2), 10);
}

TEST(Mixture, AQuotaIsMetToTheRowAndTheOthersGoOn) {
  EXPECT_EQ(letters(round_robin({3, 1, 2}, {50, -1, 70}), 400),
            row_by_row({3, 1, 2}, {50, -1, 70}, 400));
  for (const MixtureOrder order : {MixtureOrder::kBlocks, MixtureOrder::kRoundRobin}) {
    for (const bool shuffle : {true, false}) {
      MixturePlan plan{.stages = {{0, {3, 1, 2}}}, .quotas = {50, -1, 70}};
      plan.seed = 5;
      plan.shuffle = shuffle;
      plan.order = order;
      plan.block = 64;
      const Mixture mixture(plan);
      std::vector<int64_t> drawn(3, 0);
      int64_t met = 0;
      for (int64_t i = 0; i < 1000; ++i) {
        const Mixture::Draw draw = mixture(i);
        ASSERT_EQ(draw.draw, drawn[static_cast<size_t>(draw.source)]++) << i;
        if (draw.source == 0 && draw.draw == 49) met = i + 1;
      }
      EXPECT_EQ(drawn, (std::vector<int64_t>{50, 880, 70}));
      EXPECT_EQ(mixture.length_for(0, 50), met);
      EXPECT_EQ(mixture.length_for(0, 51), std::nullopt);
      EXPECT_EQ(mixture.draws_of(2), 70);
      EXPECT_EQ(mixture.end(), std::nullopt);
    }
  }
}

TEST(Mixture, EndsWhenAllQuotasAreMet) {
  for (const MixtureOrder order : {MixtureOrder::kBlocks, MixtureOrder::kRoundRobin}) {
    MixturePlan plan{.stages = {{0, {1, 4}}}, .quotas = {30, 5}};
    plan.order = order;
    const Mixture mixture(plan);
    EXPECT_EQ(mixture.end(), 35);
    const std::string all = letters(mixture, 35);
    EXPECT_EQ(std::count(all.begin(), all.end(), 'A'), 30);
    EXPECT_EQ(std::max(*mixture.length_for(0, 30), *mixture.length_for(1, 5)), 35);
  }
}

TEST(Mixture, QuotasHoldOverStages) {
  MixturePlan plan{.stages = {{0, {1, 1, 0}}, {10, {2, 1, 1}}}, .quotas = {25, -1, -1}};
  plan.staged = true;
  plan.step_rows = 4;
  for (const MixtureOrder order : {MixtureOrder::kBlocks, MixtureOrder::kRoundRobin}) {
    plan.order = order;
    const Mixture mixture(plan);
    std::vector<int64_t> drawn(3, 0), early;
    for (int64_t i = 0; i < 200; ++i) {
      if (i == 40) early = drawn;
      const Mixture::Draw draw = mixture(i);
      ASSERT_EQ(draw.draw, drawn[static_cast<size_t>(draw.source)]++) << i;
    }
    EXPECT_EQ(early, (std::vector<int64_t>{20, 20, 0}));
    EXPECT_EQ(drawn[0], 25);
    EXPECT_NEAR(static_cast<double>(drawn[1] - drawn[2]), 20,
                order == MixtureOrder::kBlocks ? 30 : 1);
  }
  plan.quotas = {15, 15, -1};
  EXPECT_EQ(error_of([&] { Mixture mixture(plan); }),
            "all sources of mixture.stages[1] have met their quotas 10 rows before the next stage "
            "starts; raise a quota, or start that stage earlier");
}

}  // namespace
}  // namespace xrun::mixture_test
