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

}  // namespace
}  // namespace xrun::input_files_test
