// Lines about rollouts, each once a run.

#include "core/rollout/rollout_notices.h"

#include <gtest/gtest.h>

namespace xrun::rollout_notices_test {
namespace {

// A body of two groups of two answers with these rewards and ends.
BodyRollouts body(const std::vector<double>& rewards, const std::string& finish) {
  BodyRollouts made;
  std::shared_ptr<const std::vector<int32_t>> prompt;
  for (size_t i = 0; i < 4; ++i) {
    if (i % 2 == 0) prompt = std::make_shared<const std::vector<int32_t>>(1, 7);
    auto one = std::make_shared<Rollout>();
    one->prompt_ids = prompt;
    one->ids.assign(i + 2, 1);
    one->logprobs.assign(i + 2, -1);
    one->reward = rewards[i];
    one->finish = finish;
    one->trained = true;
    made.all.push_back(one);
  }
  return made;
}

std::vector<std::string> lines(RolloutNotices& notices, int64_t step, const BodyRollouts& body) {
  return notices.after_body(step, rollout_metrics(body), body);
}

TEST(RolloutNotices, ReportOnceThatEveryAnswerWasCut) {
  RolloutNotices notices;
  BodyRollouts some = body({0, 1, 0, 1}, "length");
  some.all[2]->finish = "stop_string";
  EXPECT_TRUE(lines(notices, 0, some).empty());
  const BodyRollouts all = body({0, 1, 0, 1}, "length");
  const std::vector<std::string> said = lines(notices, 3, all);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(
      said[0],
      "step 3: none of 4 answers ended by itself; all were cut at their limit, the longest "
      "after 5 tokens: raise max_tokens of the sampling, or name in `stop` a string that ends "
      "an answer. rollout/stopped is the share that ends");
  EXPECT_TRUE(lines(notices, 4, all).empty());
  RolloutNotices dry;
  for (const auto& one : all.all) one->stand_in = true;
  EXPECT_TRUE(lines(dry, 0, all).empty()) << "random answers of a dry run have no end";
}

TEST(RolloutNotices, ACutAtTheModelsLimitDoesNotSuggestMoreMaxTokens) {
  // Prompts of 1 token, answers of 2 to 5.
  BodyRollouts all = body({0, 1, 0, 1}, "length");
  all.model_tokens = 3;
  RolloutNotices every;
  EXPECT_EQ(
      lines(every, 3, all),
      std::vector<std::string>{
          "step 3: none of 4 answers ended by itself; all were cut at the model's limit of 3 tokens "
          "for prompt and answer, the longest after 5 tokens: shorten the prompts, or name in `stop` "
          "a string that ends an answer. rollout/stopped is the share that ends"});
  all.model_tokens = 6;
  RolloutNotices some;
  EXPECT_EQ(
      lines(some, 3, all),
      std::vector<std::string>{
          "step 3: none of 4 answers ended by itself; all were cut at their limit (1 at the model's, "
          "6 tokens for prompt and answer), the longest after 5 tokens: raise max_tokens of the "
          "sampling, shorten the prompts, or name in `stop` a string that ends an answer. "
          "rollout/stopped is the share that ends"});
}

TEST(RolloutNotices, ReportOnceThatAllRewardsOfEveryGroupAreEqual) {
  RolloutNotices notices;
  EXPECT_TRUE(lines(notices, 0, body({1, 1, 0, 1}, "stop")).empty());
  const std::vector<std::string> said = lines(notices, 1, body({1, 1, 0, 0}, "stop"));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].find("step 1: in every group all rewards are equal (mean 0.5000)"), 0u);
  EXPECT_TRUE(lines(notices, 2, body({1, 1, 0, 0}, "stop")).empty());
}

TEST(RolloutNotices, ReportUpdatesOnceAndEachLossPathOnce) {
  RolloutNotices notices;
  BodyRollouts one = body({0, 1, 0, 1}, "stop");
  one.updates.updates = 2;
  one.updates.tokens = 14;
  one.updates.loss = "the mean over 14 tokens";
  EXPECT_EQ(lines(notices, 0, one),
            (std::vector<std::string>{"step 0: 2 prompts x 2 samples = 4 answers trained, 2 "
                                      "updates, loss: the mean over 14 tokens, loss path: "
                                      "on-policy"}));
  EXPECT_TRUE(lines(notices, 1, one).empty());
  one.updates.clipped = 7;
  one.updates.oldest = 1;
  EXPECT_EQ(lines(notices, 2, one),
            (std::vector<std::string>{"step 2: loss path: clipped (50 % of the trained tokens, up "
                                      "to 1 update old)"}));
}

TEST(RolloutNotices, UnequalNumbersOfAnswersAreNoProduct) {
  RolloutNotices notices;
  BodyRollouts one = body({0, 1, 0, 1}, "stop");
  one.all[2]->prompt_ids = one.all[0]->prompt_ids;  // 3 answers to the first prompt, 1 to the other
  one.updates.updates = 1;
  one.updates.loss = "the mean over 14 tokens";
  EXPECT_EQ(lines(notices, 0, one),
            (std::vector<std::string>{"step 0: 4 answers to 2 prompts trained, 1 update, loss: the "
                                      "mean over 14 tokens"}));
}

TEST(RolloutNotices, ALaterUpdateWithoutALossPathAddsNoLine) {
  RolloutNotices notices;
  BodyRollouts one = body({0, 1, 0, 1}, "stop");
  one.updates.updates = 1;
  one.updates.tokens = 14;
  one.updates.loss = "the mean over 14 tokens";
  EXPECT_EQ(lines(notices, 0, one).size(), 1u);
  one.updates.tokens = 0;
  EXPECT_EQ(lines(notices, 1, one), std::vector<std::string>());
}

TEST(RolloutNotices, AnUpdateOfAnswersOfAnotherBodyHasNoPrompts) {
  RolloutNotices notices;
  BodyRollouts none;
  none.updates.updates = 1;
  none.updates.loss = "the mean over 6 tokens";
  EXPECT_EQ(lines(notices, 1, none),
            (std::vector<std::string>{"step 1: 1 update, loss: the mean over 6 tokens"}));
}

}  // namespace
}  // namespace xrun::rollout_notices_test
