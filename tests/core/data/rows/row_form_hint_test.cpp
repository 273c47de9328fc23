#include <gtest/gtest.h>

#include "core/data/rows/row_parse.h"
#include "tests/core/data/rows/compressed_bytes.h"
#include "tests/core/data/rows/scratch_folder.h"

namespace xrun::row_form_hint_test {
namespace {

TEST(RowFormHint, SaysWhatTheFileIs) {
  const ScratchFolder folder;
  const auto hint = [&](const char* name, const std::string& bytes) {
    return row_form_hint(folder.write(name, bytes));
  };
  EXPECT_TRUE(hint("a.jsonl", "[\n{},\n{}]\n").starts_with("; the file is one array of rows"));
  EXPECT_TRUE(hint("b.jsonl", "{\n\"a\": 1\n}\n").starts_with("; its objects run over several"));
  EXPECT_EQ(hint("c.jsonl", gzip("{}\n")),
            "; it is compressed: name it " + (folder.path() / "c.jsonl.gz").string());
  EXPECT_EQ(hint("d.jsonl", "{}\n{}\n"), "");
  EXPECT_EQ(hint("e.txt", "[\n{},\n{}]\n"), "");
}

TEST(RowFormHint, AFileThatCannotBeReadHasNone) {
  const ScratchFolder folder;
  EXPECT_EQ(row_form_hint((folder.path() / "none.jsonl").string()), "");
  EXPECT_EQ(row_form_hint(folder.write("a.jsonl.gz", "no gzip")), "");
}

}  // namespace
}  // namespace xrun::row_form_hint_test
