// Sampled answers are shown by group, the highest reward first, with the beginnings that they
// share.

#include "core/console/inspect/rollout_text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/console/terminal/text_width.h"

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
                   .location = "sums.jsonl:10",
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

group 1 · sums.jsonl:10 · 1 answer
  prompt    3+3?
  0         no reward · 2 tokens · stop
            6
)");
  EXPECT_TRUE(rollout_groups_text(two_groups(), 1, 80)
                  .starts_with("step 4 · 2 groups · 3 answers · 1 shown\n"));
  EXPECT_EQ(rollout_groups_text(two_groups(), 1, 80).find("group 1"), std::string::npos);
}

// The numbers of tokens are those of the record, the texts what the answers below have in common.
TEST(RolloutText, DrawsTheBeginningsThatAnswersShare) {
  RecordedRollouts step = two_groups();
  std::vector<RecordedRollout> answers;
  const std::vector<std::pair<std::vector<int32_t>, std::string>> made = {
      {{5, 6, 7}, "The sum is"}, {{5, 6, 7, 8}, "The sum is 4"}, {{5, 6, 9}, "The sun"},
      {{1}, "\xC3\xA4"},         {{5, 6, 7, 8}, "The sum is 4"}, {{2, 3}, "\xC3\xB6."}};
  for (size_t i = 0; i < made.size(); ++i) {
    answers.push_back({.sample = static_cast<int64_t>(i),
                       .length = std::ssize(made[i].first),
                       .ids = made[i].first,
                       .prompt = "",
                       .text = made[i].second});
  }
  const std::vector<std::string> want = {
      "├─ 2 tokens x4: The su", "│  ├─ 1 token x3 (sample 0): m is",
      "│  │  └─ 1 token x2 (sample 1, sample 4):  4", "│  └─ 1 token (sample 2): n",
      "└─ 2 sequences that share nothing"};
  EXPECT_EQ(answer_tree_lines(answers, 80), want);
  EXPECT_TRUE(answer_tree_lines({answers[2], answers[3]}, 80).empty());
  for (RecordedRollout& one : answers) one.length = 0;  // turns of an environment among them
  EXPECT_EQ(answer_tree_lines(answers, 80)[0], "├─ 2 tokens x4: ");
  step.answers = answers;
  EXPECT_NE(rollout_groups_text(step, -1, 80).find("\n  shared    ├─ 2 tokens x4"),
            std::string::npos);
}

TEST(RolloutText, ALabelledTextFitsTheWidth) {
  const std::string text = "the hills of the north and a river, 水の上";
  for (int width = 1; width <= 60; ++width) {
    for (const bool is_prompt : {false, true}) {
      std::istringstream lines(labelled_text("prompt", text, width, is_prompt));
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(text_width(line), width) << line;
      }
    }
  }
}

TEST(RolloutText, NamesBeginNoLine) {
  RecordedRollouts step = two_groups();
  for (RecordedRollout& one : step.answers) {
    one.location = "a\nxrun: error: x";
    one.finish = "b\nxrun: error: x";
  }
  EXPECT_EQ(rollout_groups_text(step, -1, 200).find("\nxrun: error"), std::string::npos);
  EXPECT_NE(rollout_text(step.answers[0], 200).find("b⏎xrun: error: x · group 0, sample 0, a⏎xrun"),
            std::string::npos);
}

TEST(RolloutText, OfOneAnswerNamesItsGroupAndRow) {
  EXPECT_EQ(rollout_text(two_groups().answers[0], 80),
            "\nreward 0 · advantage -0.75 · 1 token · stop · group 0, sample 0, row 7"
            "\n  prompt    2+2?"
            "\n  answer    5");
}

}  // namespace
}  // namespace xrun::rollout_text_test
