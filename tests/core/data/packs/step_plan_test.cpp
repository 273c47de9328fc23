// A step plan gives each step its size and its place in the stream.

#include "core/data/packs/step_plan.h"

#include <gtest/gtest.h>

#include <limits>

namespace xrun {
namespace step_plan_test {

StepPlan growing() { return {.units = 2, .changes = {{3, 5}, {4, 1}}}; }  // 2 2 2 5 1 1 ...

TEST(StepPlan, ChangesHoldFromTheirStepOn) {
  const StepPlan plan = growing();
  const int64_t sizes[] = {2, 2, 2, 5, 1, 1};
  int64_t sum = 0;
  for (int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(plan.units_at(step), sizes[step]) << step;
    EXPECT_EQ(plan.units_before(step), sum) << step;
    sum += sizes[step];
  }
  EXPECT_EQ(plan.most_units(4), 5);
  EXPECT_EQ(plan.most_units(3), 2);  // the change at step 3 is not among them
  EXPECT_EQ(plan.most_units(0), 2);
}

TEST(StepPlan, StepsOfCountsWhatDrawsSoManyUnits) {
  const StepPlan plan = growing();
  const int64_t steps[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 4, 5, 6};
  for (int64_t units = 0; units < 14; ++units)
    EXPECT_EQ(plan.steps_of(units), steps[units]) << units;
}

TEST(StepPlan, WithoutChangesItIsAProduct) {
  const StepPlan plan{.units = 8};
  EXPECT_EQ(plan.units_before(100), 800);
  EXPECT_EQ(plan.steps_of(801), 101);
  // Far beyond any data, without an overflow.
  EXPECT_EQ(plan.units_before(std::numeric_limits<int64_t>::max()), int64_t{1} << 62);
}

}  // namespace step_plan_test
}  // namespace xrun
