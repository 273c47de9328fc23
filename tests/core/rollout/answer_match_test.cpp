#include "core/rollout/answer_match.h"

#include <gtest/gtest.h>

namespace xrun::answer_match_test {

TEST(AnswerMatch, AnAnswerIsFoundInEitherCaseAsWholeWords) {
  EXPECT_TRUE(holds_answer("The capital is PARIS.", "Paris"));
  EXPECT_TRUE(holds_answer("paris", "Paris"));
  EXPECT_TRUE(holds_answer("in New York, of course", "new york"));
  EXPECT_FALSE(holds_answer("a Parisian", "Paris"));
  EXPECT_FALSE(holds_answer("comParis", "Paris"));
  EXPECT_TRUE(holds_answer("comparison or Paris", "paris")) << "a later place counts";
  EXPECT_FALSE(holds_answer("", "Paris"));
  EXPECT_FALSE(holds_answer("anything", ""));
}

TEST(AnswerMatch, NumbersStandAlone) {
  EXPECT_TRUE(holds_answer("it is 42.", "42"));
  EXPECT_FALSE(holds_answer("it is 142", "42"));
  EXPECT_FALSE(holds_answer("it is 42nd", "42"));
  EXPECT_TRUE(holds_answer("答案是42。", "42"));
}

TEST(AnswerMatch, AnEdgeThatIsNoLetterMayTouchAWord) {
  EXPECT_TRUE(holds_answer("x-5", "-5"));
  EXPECT_TRUE(holds_answer("C++20", "C++"));
  EXPECT_FALSE(holds_answer("a%w+", "[a-z]")) << "an answer is no pattern";
}

}  // namespace xrun::answer_match_test
