#include "core/console/inspect/rollout_text.h"

#include <gtest/gtest.h>

namespace xrun::rollout_text_test {
namespace {

RecordedRollouts two_groups() {
  RecordedRollouts step{.step = 4};
  step.answers = {{.row = 7,
                   .group = 0,
                   .sample = 0,
                   .length = 1,
                   .prompt = "2+2?",
                   .text = "5",
                   .finish = "stop",
                   .reward = 0,
                   .advantage = -0.75},
                  {.row = 7,
                   .group = 0,
                   .sample = 1,
                   .length = 24,
                   .prompt = "2+2?",
                   .text = "it\nis \x1B[31m4",
                   .finish = "length",
                   .reward = 1,
                   .advantage = 0.75,
                   .parts = {{"format", 0.25}, {"right", 0.75}}},
                  {.row = 9,
                   .group = 1,
                   .sample = 0,
                   .length = 2,
                   .prompt = "3+3?",
                   .text = "6",
                   .finish = "stop"}};
  return step;
}

TEST(RolloutText, ShowsGroupsWithTheHighestRewardFirst) {
  EXPECT_EQ(rollout_groups_text(two_groups(), -1, 100),
            R"(step 4 · 2 groups · 3 answers

group 0 · row 7 · 2 answers, mean reward 0.5
  prompt    2+2?
  1         reward 1 (format 0.25, right 0.75) · advantage 0.75 · 24 tokens · length
            it⏎is <1B>[31m4
  0         reward 0 · advantage -0.75 · 1 token · stop
            5

group 1 · row 9 · 1 answer
  prompt    3+3?
  0         no reward · 2 tokens · stop
            6
)");
  EXPECT_TRUE(rollout_groups_text(two_groups(), 1, 80)
                  .starts_with("step 4 · 2 groups · 3 answers · 1 shown\n"));
  EXPECT_EQ(rollout_groups_text(two_groups(), 1, 80).find("group 1"), std::string::npos);
}

TEST(RolloutText, OfOneAnswerNamesItsGroupAndRow) {
  EXPECT_EQ(rollout_text(two_groups().answers[0], 80),
            "\nreward 0 · advantage -0.75 · 1 token · stop · group 0, sample 0, row 7"
            "\n  prompt    2+2?"
            "\n  answer    5");
}

}  // namespace
}  // namespace xrun::rollout_text_test
