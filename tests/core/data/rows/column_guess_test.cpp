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

TEST(OurNames, FollowTheNamesOfPublicSets) {
  EXPECT_EQ(our_names({"question", "winner", "id"}),
            (std::vector<std::string>{"prompt", "chosen"}));
}

}  // namespace
}  // namespace xrun::column_guess_test
