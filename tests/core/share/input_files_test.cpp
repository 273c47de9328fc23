// Names split at their first wildcard, and only files or names that differ are linked into another
// folder.

#include "core/share/input_files.h"

#include <gtest/gtest.h>

namespace xrun::input_files_test {
namespace {

TEST(InputFiles, NamesSplitAtTheirFirstWildcard) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(split_glob("a/b.jsonl"), Pair("a/", "b.jsonl"));
  EXPECT_EQ(split_glob("a/b*/c.jsonl"), Pair("a/", "b*/c.jsonl"));
  EXPECT_EQ(split_glob("*.jsonl"), Pair("", "*.jsonl"));
}

// The named file is not on this machine.
TEST(InputFiles, AFileInAFolderWithABracketIsFoundByItsLockedName) {
  LockedInput input{.kind = InputKind::kData, .name = "d[1]/a.jsonl", .files = {}};
  input.files = {{.name = "a.jsonl", .sha256 = "1"}};
  EXPECT_EQ(path_in(input, "data"), "data/a.jsonl");
  input.name = "d/*.jsonl";
  EXPECT_EQ(path_in(input, "data"), "data/*.jsonl");
  input.files.push_back({.name = "b.jsonl", .sha256 = "2"});
  EXPECT_EQ(path_in(input, "data"), "data/*.jsonl");
}

// Else a glob would match the files of the other.
TEST(InputFiles, OtherFilesOrNamesAreLinkedInAnotherFolder) {
  LockedInput input;
  input.files = {{.name = "a.jsonl", .sha256 = "1"}, {.name = "b.jsonl", .sha256 = "2"}};
  LockedInput fewer = input, renamed = input;
  fewer.files.pop_back();
  renamed.files[1].name = "c.jsonl";
  EXPECT_NE(input_folder(input, ""), input_folder(fewer, ""));
  EXPECT_NE(input_folder(input, ""), input_folder(renamed, ""));
}

}  // namespace
}  // namespace xrun::input_files_test
