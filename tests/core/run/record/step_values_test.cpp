#include "core/run/record/step_values.h"

#include <gtest/gtest.h>

#include <cmath>

namespace xrun::step_values_test {
namespace {

TEST(StepValues, EveryStepOfEitherSeriesComesOnceInOrder) {
  const MetricSeries a{"loss", {0, 1, 4}, {10, 11, 14}}, b{"loss", {1, 2, 4, 5}, {21, 22, 24, 25}};
  std::vector<int64_t> steps;
  int both = 0;
  EXPECT_FALSE(first_step_where(a, b, [&](const StepValues& at) {
    steps.push_back(at.step);
    both += at.a && at.b;
    return false;
  }));
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(both, 2);
  const auto found = first_step_where(a, b, [](const StepValues& at) { return !at.a; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2);
  EXPECT_EQ(found->b, 22);
}

TEST(StepValues, ZerosOfOtherSignsDifferAndNaNsDoNot) {
  EXPECT_FALSE(same_value(0.0, -0.0));
  EXPECT_TRUE(same_value(NAN, -NAN));
  EXPECT_FALSE(same_value(NAN, 0));
}

}  // namespace
}  // namespace xrun::step_values_test
