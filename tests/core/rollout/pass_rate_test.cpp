// pass@k equals the share of subsets of k answers that contain a passing one.

#include "core/rollout/pass_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace xrun::pass_rate_test {
namespace {

// The share of all subsets of k answers that contain one that passed.
double by_enumeration(int n, int c, int k) {
  int all = 0, some = 0;
  for (int subset = 0; subset < (1 << n); ++subset) {
    if (__builtin_popcount(static_cast<unsigned>(subset)) != k) continue;
    ++all;
    some += (subset & ((1 << c) - 1)) != 0;
  }
  return static_cast<double>(some) / all;
}

TEST(PassRate, IsTheShareOfSubsetsWithAPassingAnswer) {
  for (int n = 1; n <= 8; ++n) {
    for (int c = 0; c <= n; ++c) {
      for (int k = 1; k <= n; ++k) {
        EXPECT_NEAR(pass_at(k, {{n, c}}), by_enumeration(n, c, k), 1e-12) << n << c << k;
      }
    }
  }
}

TEST(PassRate, IsTheMeanOverPromptsWithEnoughAnswers) {
  EXPECT_DOUBLE_EQ(pass_at(1, {{4, 1}, {2, 2}}), (0.25 + 1) / 2);
  EXPECT_DOUBLE_EQ(pass_at(4, {{4, 1}, {2, 0}}), 1);
  EXPECT_TRUE(std::isnan(pass_at(3, {{2, 1}})));
  EXPECT_TRUE(std::isnan(pass_at(1, {})));
}

TEST(PassRate, SizesArePowersOfTwoAndTheWholeGroup) {
  EXPECT_EQ(pass_sizes({{6, 0}, {3, 0}}), (std::vector<int64_t>{1, 2, 4, 6}));
  EXPECT_EQ(pass_sizes({{8, 0}}), (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(pass_sizes({{1, 0}}), std::vector<int64_t>{1});
  EXPECT_TRUE(pass_sizes({}).empty());
}

}  // namespace
}  // namespace xrun::pass_rate_test
