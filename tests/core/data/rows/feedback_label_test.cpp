// true, false, 1 and 0 are labels; anything else is refused with a map that the user can paste.

#include "core/data/rows/feedback_label.h"

#include <gtest/gtest.h>

#include "core/data/rows/ledger.h"
#include "tests/error_of.h"

namespace xrun::feedback_label_test {
namespace {

// `columns`: the members of the row, as JSON.
int8_t label_of(const std::string& columns) {
  const RowFields fields(RowKind::kFeedback, {"prompt", "completion", "label"}, {});
  return feedback_label(fields, parse_json("{" + columns + "}", "row"));
}

// "reason: detail" of a refused row; "" if it has a label.
std::string refusal(const std::string& columns) {
  try {
    label_of(columns);
    return "";
  } catch (const RowRefusal& refused) {
    return refused.reason() + ": " + refused.what();
  }
}

TEST(FeedbackLabel, IsABooleanOrANumber) {
  EXPECT_EQ(label_of(R"("label":true)"), 1);
  EXPECT_EQ(label_of(R"("label":false)"), 0);
  EXPECT_EQ(label_of(R"("label":1)"), 1);
  EXPECT_EQ(label_of(R"("label":0.0)"), 0);
}

TEST(FeedbackLabel, ARowWithoutOneOffersTheOtherColumns) {
  EXPECT_EQ(refusal(R"("prompt":"a","completion":"b")"),
            "bad_label: has no \"label\"; its columns: prompt, completion");
  EXPECT_EQ(refusal(R"("prompt":"a","completion":"b","score":1)"),
            "bad_label: has no \"label\"; columns that are not used: score; name the right one, "
            "for example fields = { label = \"score\" }");
}

TEST(FeedbackLabel, AWordIsRefusedWithAMapForIt) {
  const std::string wanted =
      ", wanted true or false; turn it into one with a map that names the value of good answers: "
      "xrun.feedback(cfg.data, policy, { map = function(row) row.label = row.label == true or "
      "row.label == 1 or ";
  EXPECT_EQ(refusal(R"("label":"good")"),
            "bad_label: \"label\" is \"good\"" + wanted +
                "tostring(row.label):lower() == \"good\" return row end })");
  EXPECT_EQ(refusal(R"("label":"false")"),
            "bad_label: \"label\" is \"false\"" + wanted +
                "tostring(row.label):lower() == \"true\" return row end })");
  EXPECT_EQ(refusal(R"("label":"a \"b\"")"),
            "bad_label: \"label\" is \"a \\\"b\\\"\"" + wanted +
                "row.label == \"<the value of good answers>\" return row end })");
  EXPECT_EQ(refusal(R"("label":[1])"), "bad_label: \"label\" is [1], wanted true or false");
}

TEST(FeedbackLabel, TheMapNamesTheGoodWordOfAPairFromEitherWord) {
  for (const auto& [bad, good] :
       std::vector<std::pair<std::string, std::string>>{{"undesirable", "desirable"},
                                                        {"No", "yes"},
                                                        {"BAD", "good"},
                                                        {"negative", "positive"},
                                                        {"rejected", "chosen"},
                                                        {"Dislike", "like"},
                                                        {"thumbs_down", "thumbs_up"},
                                                        {"downvote", "upvote"},
                                                        {"0", "1"}}) {
    for (const std::string& word : {bad, good}) {
      const std::string message = refusal(R"("label":")" + word + "\"");
      EXPECT_NE(message.find(":lower() == \"" + good + "\" return row end"), std::string::npos)
          << message;
    }
  }
}

TEST(FeedbackLabel, AnotherNumberIsARating) {
  const std::string
      wanted = ", wanted true or false (or 1 or 0); ",
      map = "xrun.feedback(cfg.data, policy, { map = function(row) row.label = row.label ";
  EXPECT_EQ(message_of<RatingRefusal>([] { label_of(R"("label":5)"); }),
            "\"label\" is 5" + wanted +
                "if the labels are ratings, choose where good answers begin, with a map: " + map +
                ">= 4 return row end }); if not, correct this row");
  EXPECT_EQ(message_of<RatingRefusal>([] { label_of(R"("label":-1)"); }),
            "\"label\" is -1" + wanted + "a map translates it: " + map + "== 1 return row end })");
}

}  // namespace
}  // namespace xrun::feedback_label_test
