#include "core/console/table.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace xrun {
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

TEST(TextTable, RefusesMoreCellsThanColumns) {
  TextTable table({"a"});
  EXPECT_THROW(table.add({"1", "2"}), Error);
}

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("ü"), 1);
  EXPECT_EQ(display_width("u\u0308"), 1);
  EXPECT_EQ(display_width("日本語"), 6);
  EXPECT_EQ(display_width("\x1b[31mred\x1b[0m"), 3);
  EXPECT_EQ(display_width("\xff"), 1);
}

TEST(CutToWidth, EndsWithAnEllipsisAndUnpaints) {
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdef", 4), "abc…");
  EXPECT_EQ(cut_to_width("日本語", 4), "日…");
  EXPECT_EQ(cut_to_width("\x1b[31mabcdef\x1b[0m", 3), "\x1b[31mab…\x1b[0m");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

}  // namespace
}  // namespace xrun
