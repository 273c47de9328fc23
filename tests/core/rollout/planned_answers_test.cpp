// The answers that a loop plans: read from the configuration, described, checked against limits.

#include "core/rollout/planned_answers.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace xrun::planned_answers_test {
namespace {

std::optional<PlannedAnswers> planned(const std::string& sampling) {
  return planned_answers(parse_json(sampling, "sampling"));
}

TEST(PlannedAnswers, HaveTheDefaultsOfSamplingWhereTheConfigurationIsSilent) {
  const auto given = planned(R"({"samples": 4, "max_tokens": 24, "temperature": 0.5})");
  ASSERT_TRUE(given);
  EXPECT_EQ(given->samples, 4);
  EXPECT_EQ(given->max_tokens, 24);
  EXPECT_EQ(given->temperature, 0.5);
  const auto silent = planned(R"({"top_p": 0.9})");
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->samples, 8);
  EXPECT_EQ(silent->max_tokens, 128);
  EXPECT_EQ(silent->temperature, 1);
  EXPECT_EQ(silent->tokens(), 128);
  const auto turns = planned(R"({"max_tokens": 24, "max_turns": 3})");
  ASSERT_TRUE(turns);
  EXPECT_EQ(turns->tokens(), 72);
  EXPECT_FALSE(planned(R"({"max_turns": 0})"));
  EXPECT_FALSE(planned(R"({"max_tokens": 0})"));
  EXPECT_FALSE(planned(R"({"samples": 0})"));
  EXPECT_FALSE(planned("[8]"));
}

TEST(PlannedAnswers, FitIfThePromptLeavesRoomInBatchAndModel) {
  const auto error = [](int64_t prompt, const AnswerRoom& room) {
    return error_of([&] { check_room("p.jsonl:3", prompt, room); });
  };
  const AnswerRoom room{.max_tokens = 12, .batch_tokens = 30, .model_tokens = 64};
  check_room("p.jsonl:3", 18, room);
  EXPECT_EQ(error(19, room),
            "p.jsonl:3: a prompt of 19 tokens and max_tokens = 12 of an answer exceed "
            "batch.max_tokens = 30; raise it to 31, or lower max_tokens of the sampling; "
            "max_length = 18 with over_length = \"drop\" leaves such prompts out");
  EXPECT_EQ(error(0, room), "p.jsonl:3: the prompt is empty");
  const std::string none = error(64, {.max_tokens = 12, .batch_tokens = 100, .model_tokens = 64});
  EXPECT_EQ(none,
            "p.jsonl:3: the prompt has 64 tokens, which leaves none of the model's 64 for an "
            "answer; shorten it, or leave such prompts out: max_length = 63 with over_length = "
            "\"drop\"");
  // The model's limit ends the answer before it fills the micro-batch.
  check_room("p.jsonl:3", 60, {.max_tokens = 12, .batch_tokens = 64, .model_tokens = 64});
  check_room("p.jsonl:3", 1000, {.max_tokens = 12});
  EXPECT_EQ(error(2, {.max_tokens = 12, .batch_tokens = 8}),
            "p.jsonl:3: a prompt of 2 tokens and max_tokens = 12 of an answer exceed "
            "batch.max_tokens = 8; raise it to 14, or lower max_tokens of the sampling");
}

TEST(PlannedAnswers, AreDescribedWithTheirTemperatureAndQueue) {
  const PlannedAnswers answers{.samples = 4, .max_tokens = 24, .temperature = 0.8};
  EXPECT_EQ(
      describe_answers(answers, 8, nullptr),
      "8 prompts x 4 samples = 32 answers a step, at most 24 tokens each, at temperature 0.8");
  EXPECT_EQ(describe_answers({.samples = 2, .max_tokens = 24, .turns = 3}, 1, nullptr),
            "1 prompt x 2 samples = 2 answers a step, at most 3 turns of 24 tokens each, at "
            "temperature 1");
  const GroupQueueOptions queue{.depth = 2};
  EXPECT_EQ(describe_answers(answers, 8, &queue),
            "8 groups x 4 samples = 32 answers a step, at most 24 tokens each, at temperature 0.8; "
            "prompts are drawn until 8 groups have rewards that deviate by more than 1e-06; "
            "sampled 2 steps ahead, so their weights are older");
}

}  // namespace
}  // namespace xrun::planned_answers_test
