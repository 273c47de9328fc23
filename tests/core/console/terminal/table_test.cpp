// Tables, lists and bars fit the terminal's width with their columns aligned.

#include "core/console/terminal/table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/console/terminal/text_width.h"
#include "tests/error_of.h"

namespace xrun::table_test {
namespace {

TEST(TextTable, AlignsColumnsAndDropsTrailingSpace) {
  TextTable table({"source", "rows", "note"}, {Align::kLeft, Align::kRight, Align::kLeft});
  table.add({"a.jsonl", "1,000", "x"});
  table.add({"日本", "7"});
  EXPECT_EQ(table.text(),
            "source    rows  note\n"
            "a.jsonl  1,000  x\n"
            "日本         7\n");
}

TEST(TextTable, CutsTheWidestLeftColumnToTheWidth) {
  TextTable table({"name", "n"}, {Align::kLeft, Align::kRight});
  table.add({"a_very_long_name_of_a_file", "12"});
  EXPECT_EQ(table.text(16), "name           n\na_very_long…  12\n");
}

TEST(TextTable, EveryLineFitsTheWidth) {
  TextTable table({"name", "n", "origin", ""}, {Align::kLeft, Align::kRight, Align::kLeft});
  table.add({"a_very_long_name_of_a_file", "123456.78", "recipes/deep/folder/dpo.lua:17"});
  table.add({"日本語日本語日本語", "7", "x"});
  EXPECT_EQ(table.text(48),
            "name                       n  origin\n"
            "a_very_long_name…  123456.78  recipes/deep/fold…\n"
            "日本語日本語日本…          7  x\n");
  EXPECT_EQ(table.text(18),
            "na…         n  or…\n"
            "a_…  123456.…  re…\n"
            "日…         7  x\n");
  for (int width = 1; width < 90; ++width) {
    const std::string text = table.text(width);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      EXPECT_LE(text_width(text.substr(at, end - at)), width);
      at = end + 1;
    }
  }
}

TEST(TextTable, AHeaderWithoutRowsPrintsNothing) { EXPECT_EQ(TextTable({"a", "b"}).text(), ""); }

TEST(TextTable, RefusesMoreCellsThanColumns) {
  TextTable table({"a"});
  EXPECT_EQ(message_of<Error>([&] {
              table.add({"1", "2"});
            }),
            "a row of 2 cells in a table of 1 columns");
}

TEST(WordList, MeaningsWrapBesideTheirNames) {
  EXPECT_EQ(word_list({{":a", "one two three four five six seven"}, {":long", "x"}}, 40),
            ":a     one two three four five six seven\n:long  x\n");
  EXPECT_EQ(word_list({{":a", "one two three four five six seven"}, {":long", "x"}}, 37),
            ":a     one two three four five six\n       seven\n:long  x\n");
}

TEST(WordList, MeaningsGoBelowOnANarrowScreen) {
  EXPECT_EQ(word_list({{":name", "one two three"}}, 10), ":name\n  one two\n  three\n");
}

TEST(WordList, AWordWiderThanALineIsSplitBetweenCharacters) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(broken_lines("a tremendous b", 5), (Lines{"a", "treme", "ndous", "b"}));
  EXPECT_EQ(broken_lines("日本語", 5), (Lines{"日本", "語"}));
  EXPECT_EQ(broken_lines("日本", 1), (Lines{"日", "本"}));
  EXPECT_EQ(broken_lines("", 5), Lines{""});
  EXPECT_EQ(broken_lines("tests/data/pairs.jsonl:7", 14), (Lines{"tests/data/", "pairs.jsonl:7"}));
  EXPECT_EQ(broken_lines("t/a_long_name", 6), (Lines{"t/a_lo", "ng_nam", "e"}));
}

TEST(Quantile, IgnoresNonFiniteValues) {
  EXPECT_EQ(quantile({3, NAN, 1, INFINITY, 2}, 0.5), 2);
  EXPECT_EQ(quantile({3, 1, 2}, 0), 1);
  EXPECT_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
  EXPECT_TRUE(std::isnan(quantile({NAN}, 0.5)));
}

}  // namespace
}  // namespace xrun::table_test
