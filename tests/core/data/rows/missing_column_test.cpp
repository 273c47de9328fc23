// A missing column is explained by the notes of the rows that have it or lack it.

#include "core/data/rows/missing_column.h"

#include <gtest/gtest.h>

namespace xrun::missing_column_test {
namespace {

// Three rows with these notes on one each.
MissingColumn explained(const std::vector<std::string>& notes) {
  SourceLedger source;
  source.name = "sums";
  source.rows = 3;
  for (const std::string& note : notes) source.note(note, {0, 1});
  return missing_column({{source}}, "answer");
}

TEST(MissingColumn, OfTheFirstRowIsCountedInTheOthers) {
  const MissingColumn missing = explained({no_column_note("answer"), left_out_note("answer")});
  EXPECT_EQ(missing.why,
            "the first row of sums has no \"answer\", so `keep` leaves the column out; 1 of 3 rows "
            "have it");
  EXPECT_EQ(missing.fix,
            "give every row the column, put a row that has it first, or leave out rows without it: "
            "filter = function(row) return row.answer ~= nil end");
}

TEST(MissingColumn, OfEveryRowNamesTheColumnsThatAreNotUsed) {
  const MissingColumn missing =
      explained({no_column_note("answer"), unused_note("solution"), unused_note("topic")});
  EXPECT_EQ(missing.why,
            "no row of sums has text or a number in \"answer\"; columns that are not used: "
            "solution, topic");
  EXPECT_TRUE(missing.fix.starts_with(
      "keep the right one and read it under its own name: keep = { \"solution\" }, or --set "
      "'data.1.keep={\"solution\"}' for the first source"))
      << missing.fix;
  EXPECT_EQ(explained({no_column_note("answer")}).fix, "give every row the column");
}

TEST(MissingColumn, ThatFieldsRenamesIsKeptUnderItsOwnName) {
  const MissingColumn missing =
      explained({renamed_note("answer", "solution", "\"solution\""), unused_note("topic")});
  EXPECT_EQ(
      missing.why,
      "`fields` reads \"answer\" from the column \"solution\", and `keep` keeps columns under "
      "their own names");
  EXPECT_EQ(missing.fix, "name that one, keep = { \"solution\" }, and read it as s.solution");
}

TEST(MissingColumn, ThatNoKeepNamesIsKeptByOne) {
  EXPECT_EQ(explained({unused_note("answer")}).fix,
            "data = {{ path = ..., keep = { \"answer\" } }} keeps it");
  EXPECT_EQ(explained({}).why + explained({unused_note("topic")}).why, "");
}

}  // namespace
}  // namespace xrun::missing_column_test
