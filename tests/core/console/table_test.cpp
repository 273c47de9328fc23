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

}  // namespace
}  // namespace xrun
