#include "core/run/record/missing_steps.h"

#include <gtest/gtest.h>

#include <limits>

namespace xrun::missing_steps_test {
namespace {

std::string missing(const std::vector<int64_t>& steps, int64_t end = 0) {
  MissingSteps found;
  for (const int64_t step : steps) found.has(step);
  found.until(end);
  return found.text();
}

TEST(MissingSteps, AreNoneWhereEveryStepHasALine) {
  EXPECT_EQ(missing({}), "");
  EXPECT_EQ(missing({0, 1, 2}, 3), "");
}

TEST(MissingSteps, AreNamedByTheirRanges) {
  EXPECT_EQ(missing({0, 2}), "metrics.jsonl has no line of step 1");
  EXPECT_EQ(missing({2, 3, 5}, 8), "metrics.jsonl has no line of steps 0 to 1, 4, 6 to 7");
  EXPECT_EQ(missing({1, 3, 5, 7, 9}), "metrics.jsonl has no line of steps 0, 2, 4 and 2 more");
}

TEST(MissingSteps, HoldForNumbersThatNoRunReaches) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(missing({-5, 0, most, most}),
            "metrics.jsonl has no line of steps 1 to 9223372036854775806");
}

}  // namespace
}  // namespace xrun::missing_steps_test
