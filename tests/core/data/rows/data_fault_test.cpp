// A bad row is shown in one line, whatever the form of its file.

#include "core/data/rows/data_fault.h"

#include <gtest/gtest.h>

#include "tests/scratch_folder.h"

namespace xrun::data_fault_test {
namespace {

std::string shown(const std::string& row) { return data_error("fault", row, {}).what(); }

TEST(DataFault, ARowOfSeveralLinesIsShownAsOne) {
  ScratchFolder folder;
  const std::string rows = folder.write(
      "rows.json",
      "[\n  {\n    \"a\": 1,\n    \"b\": [\n      2\n    ]\n  },\n  {\n    \"a\": 3\n  }\n]");
  EXPECT_EQ(shown(row_of_file(rows, 2)), "fault\n  row  { \"a\": 1, \"b\": [ 2 ] }");
  EXPECT_EQ(shown(row_of_file(rows, 8)), "fault\n  row  { \"a\": 3 }");
  EXPECT_EQ(shown(row_of_file(rows, 99)), "fault");
}

TEST(DataFault, ALineThatHoldsSeveralRowsIsShownAsItIs) {
  ScratchFolder folder;
  EXPECT_EQ(shown(row_of_file(folder.write("rows.json", "[{\"a\":1},{\"a\":2}]"), 1)),
            "fault\n  row  [{\"a\":1},{\"a\":2}]");
  EXPECT_EQ(shown(row_of_file(folder.write("rows.jsonl", "{\"a\":1}\n{\"a\":2}\n"), 2)),
            "fault\n  row  {\"a\":2}");
}

}  // namespace
}  // namespace xrun::data_fault_test
