// Columns that `keep` names stay with their rows, as numbers or text, in all sources or in none.

#include "core/data/packs/data_set.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::extra_columns_test {
namespace {

using DataSets = PairFixture;

TEST_F(DataSets, ExtraColumnsStayWithTheirRows) {
  DataOptions opened = options(numbered_pairs(5));
  opened.sources[0].keep = {"score", "tag"};
  const DataSet set = open(opened);
  EXPECT_EQ(set.extra_number(3, "score"), 3.0);
  EXPECT_EQ(set.extra_string(4, "tag"), "t4");
  EXPECT_NE(error_of([&] { set.extra_number(0, "scores"); }).find("is not an extra column"),
            std::string::npos);
  EXPECT_NE(error_of([&] { set.extra_number(0, "tag"); }).find("holds strings"), std::string::npos);
}

TEST_F(DataSets, AnExtraColumnOfMixedTypesDropsTheOtherRows) {
  DataOptions opened =
      options(pair_row("q", "a", "b", ",\"k\":1") + pair_row("q", "c", "d", ",\"k\":\"x\""));
  opened.sources[0].keep = {"k"};
  EXPECT_EQ(open(opened).ledger().sources[0].dropped.at("bad_extra_column"), 1);
}

// max_bad would keep the few rows with the type of the first.
TEST_F(DataSets, MostRowsOfAnotherTypeThanTheFirstAreExplainedByIt) {
  std::string rows = pair_row("q", "a", "b", ",\"k\":\"high\"");
  for (int i = 0; i < 3; ++i) rows += pair_row("q", "c", "d", ",\"k\":0.5");
  DataOptions opened = options(rows);
  opened.sources[0].keep = {"k"};
  const std::string message = error_of([&] { open(opened); });
  EXPECT_NE(message.find("; the first row decides the type of a column that `keep` names: 1 row of "
                         "its type, 3 of another; write one type in every row, or leave the column "
                         "out of `keep`"),
            std::string::npos)
      << message;
  EXPECT_NE(
      message.find("bad_extra_column: \"k\" is a number, and the first row has a string there"),
      std::string::npos)
      << message;
  EXPECT_EQ(message.find("--set max_bad"), std::string::npos) << message;
}

TEST_F(DataSets, AnExtraColumnThatTheFirstRowLacksIsIgnoredWithANote) {
  DataOptions opened = options(pair_row("q", "a", "b", ",\"tag\":\"t\"") +
                               pair_row("q", "c", "d", ",\"k\":1,\"tag\":\"u\""));
  opened.sources[0].keep = {"k", "tag"};
  const DataSet set = open(opened);
  EXPECT_EQ(set.size(), 2);
  ASSERT_EQ(set.extra_columns().size(), 1u);
  EXPECT_EQ(set.extra_string(1, "tag"), "u");
  EXPECT_EQ(
      set.ledger().sources[0].notes.at("keep: these rows have no \"k\" with text or a number"), 1);
  EXPECT_EQ(set.ledger().sources[0].notes.at(
                "keep: the \"k\" of these rows is left out, since the first row has none"),
            1);
}

TEST_F(DataSets, AnExtraColumnUnderOurNameOfARenamedOneHasOneNote) {
  DataOptions opened = options(R"({"question":"q","chosen":"a","rejected":"b"})"
                               "\n");
  opened.sources[0].fields = {{"prompt", "question"}};
  opened.sources[0].keep = {"prompt"};
  const DataSet set = open(opened);
  ASSERT_EQ(set.ledger().sources[0].notes.size(), 1u);
  EXPECT_EQ(
      set.ledger().sources[0].notes.begin()->first,
      "keep: these rows have their \"prompt\" as \"question\", which `fields` names: keep = { "
      "\"question\" } keeps it");
}

TEST_F(DataSets, AnExtraColumnThatHoldsListsHasOneNote) {
  DataOptions opened =
      options(pair_row("q", "a", "b", ",\"k\":[1]") + pair_row("q", "c", "d", ",\"k\":[2]"));
  opened.sources[0].keep = {"k"};
  const DataSet set = open(opened);
  ASSERT_EQ(set.ledger().sources[0].notes.size(), 1u);
  EXPECT_EQ(set.ledger().sources[0].notes.begin()->first,
            "keep: these rows have no \"k\" with text or a number");
}

TEST_F(DataSets, ARowThatLacksAnExtraStringHasAnEmptyOne) {
  DataOptions opened =
      options(pair_row("q", "a", "b", ",\"k\":\"x\"") + pair_row("q", "c", "d", ""));
  opened.sources[0].keep = {"k"};
  EXPECT_EQ(open(opened).extra_string(1, "k"), "");
}

TEST_F(DataSets, ARowThatLacksAnExtraNumberOfTheFirstRowIsDropped) {
  DataOptions opened = options(pair_row("q", "a", "b", ",\"k\":1") + pair_row("q", "c", "d", ""));
  opened.sources[0].keep = {"k"};
  EXPECT_EQ(open(opened).ledger().sources[0].dropped.at("bad_extra_column"), 1);
}

TEST_F(DataSets, AnExtraNumberIsInAllSourcesOrInNone) {
  DataOptions both = options(numbered_pairs(4), "a.jsonl");
  both.sources.push_back(options(numbered_pairs(3), "b.jsonl").sources[0]);
  both.sources[0].keep = {"score", "tag"};
  EXPECT_NE(error_of([&] {
              open(both);
            }).find("b.jsonl: has no extra column \"score\", which other sources have as a number"),
            std::string::npos);
  both.sources[0].keep = {"tag"};
  EXPECT_EQ(open(both).extra_string(5, "tag"), "");
}

}  // namespace
}  // namespace xrun::extra_columns_test
