// Group-relative advantages against TRL's, with groups of unequal sizes, equal rewards or one
// rollout.

#include "core/train/advantage.h"

#include <ATen/core/Formatting.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/json.h"
#include "tests/error_of.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::advantage_test {
namespace {

at::Tensor doubles(std::initializer_list<double> values) {
  return at::tensor(std::vector<double>(values), at::kDouble);
}
at::Tensor ids(std::initializer_list<int64_t> values) {
  return at::tensor(std::vector<int64_t>(values), at::kLong);
}
at::Tensor column(const Json& values, at::ScalarType type) {
  std::vector<double> out;
  for (const Json& value : values.as_array()) out.push_back(value.as_double());
  return at::tensor(out, at::kDouble).to(type);
}

void expect_near(const at::Tensor& got, const at::Tensor& want, double tolerance = 1e-12) {
  ASSERT_EQ(got.sizes(), want.sizes());
  const double apart = got.to(at::kDouble).sub(want).abs().max().item().toDouble();
  EXPECT_LE(apart, tolerance) << got;
  note_parity(apart, tolerance);
}

TEST(GroupAdvantage, MatchesTrl) {
  const Json golden = read_json(source_path("tests/golden/policy_losses.json"));
  const at::Tensor reward = column(golden.at("rollouts").at("reward"), at::kDouble);
  const at::Tensor group = column(golden.at("rollouts").at("group"), at::kLong);
  const Json& wanted = golden.at("advantages");
  const auto expect = [&](const char* name, const AdvantageOptions& options) {
    SCOPED_TRACE(name);
    // TRL computes its standard deviation in fp32.
    expect_near(group_advantage(reward, group, options), column(wanted.at(name), at::kDouble),
                1e-7);
  };
  expect("group", {.eps = 1e-4});
  expect("none", {.scale = false});
  expect("leave_one_out", {.baseline = Baseline::kLeaveOneOut, .scale = false});
}

TEST(GroupAdvantage, GroupsMayDifferInSizeAndInterleave) {
  // Groups 7: {1, 2, 6}, mean 3, unbiased std sqrt(7); 3: {0, 4}, mean 2, std sqrt(8).
  const at::Tensor reward = doubles({1, 0, 2, 4, 6});
  const at::Tensor group = ids({7, 3, 7, 3, 7});
  const double a = std::sqrt(7.0), b = std::sqrt(8.0);
  expect_near(group_advantage(reward, group, {.eps = 0}),
              doubles({-2 / a, -2 / b, -1 / a, 2 / b, 3 / a}));
  expect_near(group_advantage(reward, group, {.scale = false}), doubles({-2, -2, -1, 2, 3}));
  expect_near(group_advantage(reward, group, {.baseline = Baseline::kLeaveOneOut, .scale = false}),
              doubles({-3, -4, -1.5, 4, 4.5}));
  expect_near(group_advantage(reward, group, {.baseline = Baseline::kLeaveOneOut, .eps = 0}),
              doubles({-3 / a, -4 / b, -1.5 / a, 4 / b, 4.5 / a}));
}

// The mean of three times 0.1 is not 0.1, which an eps of 0 would turn into an advantage of 1.
TEST(GroupAdvantage, EqualRewardsAndSingleRolloutsGiveExactZeros) {
  const at::Tensor reward = doubles({0.1, 0.1, 0.1, 5});
  const at::Tensor group = ids({0, 0, 0, 1});
  for (const Baseline baseline : {Baseline::kMean, Baseline::kLeaveOneOut}) {
    for (const bool scale : {true, false}) {
      const at::Tensor got = group_advantage(reward, group, {baseline, scale, 0});
      EXPECT_TRUE(got.eq(0).all().item().toBool()) << got;
    }
  }
}

TEST(GroupAdvantage, KeepsTheTypeOfRewardsAndComputesInDouble) {
  // In fp32 the mean of these rewards would lose the difference of 1.
  const at::Tensor reward = at::tensor(std::vector<float>{16777216, 16777214}, at::kFloat);
  const at::Tensor got = group_advantage(reward, ids({0, 0}), {.scale = false});
  EXPECT_EQ(got.scalar_type(), at::kFloat);
  expect_near(got, doubles({1, -1}), 0);
  EXPECT_EQ(group_advantage(ids({1, 2}), ids({0, 0})).scalar_type(), at::kFloat);
  EXPECT_EQ(group_advantage(doubles({}), ids({})).numel(), 0);
}

TEST(GroupAdvantage, AnErrorNamesTheArgumentAndTheRollout) {
  const auto error = [](const at::Tensor& reward, const at::Tensor& group, double eps = 1e-6) {
    return error_of([&] { group_advantage(reward, group, {.eps = eps}); });
  };
  EXPECT_EQ(error(doubles({1, std::nan(""), 2}), ids({0, 0, 0})),
            "the reward of rollout 1 is nan, wanted a finite number");
  EXPECT_EQ(error(doubles({1, 2}), ids({0})), "groups have shape [1], wanted [2] as the rewards");
  EXPECT_EQ(error(doubles({1}), doubles({0})), "groups are Double, wanted whole numbers (i64)");
  EXPECT_EQ(error(doubles({1, 2}), ids({0, -1})), "the group of rollout 1 is -1, wanted 0 or more");
  EXPECT_EQ(error(doubles({1}), ids({0}), -1), "eps is -1, wanted 0 or more");
}

}  // namespace
}  // namespace xrun::advantage_test
