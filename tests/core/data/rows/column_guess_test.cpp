// Surer guesses go first, and no column is the guess for two names.

#include "core/data/rows/column_guess.h"

#include <gtest/gtest.h>

namespace xrun::column_guess_test {
namespace {

ColumnNames guess(const std::string& row, const std::vector<std::string>& lacking) {
  const Json json = parse_json(row, "row");
  std::vector<std::string> unread;
  for (const Json::Member& member : json.as_object()) unread.push_back(member.first);
  return guess_columns(json, lacking, unread);
}

TEST(ColumnGuess, NamesOfPublicSetsGoBeforeTheOrderOfTheColumns) {
  EXPECT_EQ(guess(R"({"id":"x","answer":"b","question":"a"})", {"prompt", "completion"}),
            (ColumnNames{{"prompt", "question"}, {"completion", "answer"}}));
}

TEST(ColumnGuess, AMisspelledNameIsGuessed) {
  EXPECT_EQ(guess(R"({"id":"x","promt":"a"})", {"prompt"}), (ColumnNames{{"prompt", "promt"}}));
}

TEST(ColumnGuess, ANumberIsNoText) {
  EXPECT_EQ(guess(R"({"score":5})", {"prompt"}), (ColumnNames{{"prompt", kNoColumn}}));
}

TEST(ColumnGuess, MessagesAreAList) {
  EXPECT_EQ(guess(R"({"a":"text","b":[]})", {"messages"}), (ColumnNames{{"messages", "b"}}));
  EXPECT_EQ(guess(R"({"a":"text"})", {"messages"}), (ColumnNames{{"messages", kNoColumn}}));
}

TEST(ColumnGuess, AColumnServesOneName) {
  EXPECT_EQ(guess(R"({"a":"text"})", {"chosen", "rejected"}),
            (ColumnNames{{"chosen", "a"}, {"rejected", kNoColumn}}));
}

TEST(ColumnGuess, AWordOfANameGoesBeforeTheOrderOfTheColumns) {
  EXPECT_EQ(guess(R"({"id":"x","worse_answer":"b","better_answer":"a"})", {"chosen", "rejected"}),
            (ColumnNames{{"chosen", "better_answer"}, {"rejected", "worse_answer"}}));
}

TEST(ColumnGuess, ANullColumnGoesBeforeOneThatTellsWhereTheRowIsFrom) {
  EXPECT_EQ(
      guess(R"({"问题":"q","好":"a","坏":null,"来源":"web"})", {"prompt", "chosen", "rejected"}),
      (ColumnNames{{"prompt", "问题"}, {"chosen", "好"}, {"rejected", "坏"}}));
  EXPECT_EQ(guess(R"({"A":null,"B":"b","C":"c","数据来源":"web"})", {"chosen", "rejected"}),
            (ColumnNames{{"chosen", "B"}, {"rejected", "C"}}));
  EXPECT_EQ(guess(R"({"A":"a","B":null,"src":"web"})", {"chosen", "rejected"}),
            (ColumnNames{{"chosen", "A"}, {"rejected", "B"}}));
}

std::string likely(const std::string& row, const std::string& ours, bool by_name = false) {
  const Json json = parse_json(row, "row");
  std::vector<std::string> unread;
  for (const Json::Member& member : json.as_object()) unread.push_back(member.first);
  return likely_column(json, ours, unread, by_name);
}

TEST(LikelyColumn, IsTheOnlyOneThatMayBeMeant) {
  EXPECT_EQ(likely(R"({"a":"text","b":"text"})", "chosen"), "");
  EXPECT_EQ(likely(R"({"a":"text","source":"web","n":5})", "chosen"), "a");
  EXPECT_EQ(likely(R"({"a":"text"})", "chosen", true), "");
  EXPECT_EQ(likely(R"({"text_id":"x"})", "chosen"), "");
  EXPECT_EQ(likely(R"({"answer":"a","question":"b"})", "chosen"), "answer");
  EXPECT_EQ(likely(R"({"worse_answer":"a"})", "chosen"), "");
  EXPECT_EQ(likely(R"({"good_answer":"a","good_reply":"b"})", "chosen"), "");
  EXPECT_EQ(likely(R"({"response_text":"a","title":"b"})", "completion", true), "response_text");
  EXPECT_EQ(likely(R"({"id":7,"thumbs_up":true})", "label"), "thumbs_up");
}

TEST(OurNames, FollowTheNamesOfPublicSets) {
  EXPECT_EQ(our_names({"question", "winner", "id"}),
            (std::vector<std::string>{"prompt", "chosen"}));
}

}  // namespace
}  // namespace xrun::column_guess_test
