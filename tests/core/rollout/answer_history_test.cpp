// The history has the latest answer to each prompt and sample and stays below its limit.

#include "core/rollout/answer_history.h"

#include <gtest/gtest.h>

namespace xrun::answer_history_test {
namespace {

using Ids = std::vector<int32_t>;

TEST(AnswerHistory, HasTheLatestAnswerOfAPromptAndSample) {
  AnswerHistory history;
  const Ids prompt = {1, 2, 3};
  EXPECT_EQ(history.drafts({prompt, 7, 100}, 2), (std::vector<Ids>{{}, {}}));
  history.remember({prompt, 7, 100}, 1, {4, 5});
  history.remember({prompt, 7, 100}, 1, {6, 7, 8});
  EXPECT_EQ(history.drafts({prompt, 7, 100}, 2), (std::vector<Ids>{{}, {6, 7, 8}}));
  const std::vector<Ids> none = {{}, {}};
  EXPECT_EQ(history.drafts({prompt, 8, 100}, 2), none) << "another row";
  EXPECT_EQ(history.drafts({prompt, 7, 99}, 2), none) << "another vocabulary";
  EXPECT_EQ(history.drafts({Ids{1, 2}, 7, 100}, 2), none) << "another prompt";
}

TEST(AnswerHistory, StaysBelowItsLimit) {
  AnswerHistory history(5);
  const Ids prompt = {1};
  history.remember({prompt, 0, 10}, 0, {1, 2, 3});
  history.remember({prompt, 1, 10}, 0, {1, 2, 3});
  EXPECT_EQ(history.drafts({prompt, 1, 10}, 1), std::vector<Ids>{{}}) << "it would be too much";
  history.remember({prompt, 0, 10}, 0, {9, 9, 9, 9, 9});
  EXPECT_EQ(history.drafts({prompt, 0, 10}, 1), (std::vector<Ids>{{9, 9, 9, 9, 9}}));
  history.remember({prompt, 0, 10}, 0, {8});  // leaves room for four more
  history.remember({prompt, 1, 10}, 0, {1, 2, 3, 4, 5});
  EXPECT_EQ(history.drafts({prompt, 1, 10}, 1), std::vector<Ids>{{}});
  history.remember({prompt, 1, 10}, 0, {1, 2, 3, 4});
  EXPECT_EQ(history.drafts({prompt, 1, 10}, 1), (std::vector<Ids>{{1, 2, 3, 4}}));
}

}  // namespace
}  // namespace xrun::answer_history_test
