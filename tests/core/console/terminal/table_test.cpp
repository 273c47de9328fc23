#include "core/console/terminal/table.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/console/terminal/text_width.h"

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

TEST(TextTable, AHeaderAloneIsNoTable) { EXPECT_EQ(TextTable({"a", "b"}).text(), ""); }

TEST(TextTable, RefusesMoreCellsThanColumns) {
  TextTable table({"a"});
  EXPECT_THROW(table.add({"1", "2"}), Error);
}

}  // namespace
}  // namespace xrun::table_test
