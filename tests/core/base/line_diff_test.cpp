// The diff shows changed lines with their neighbours and takes bounded time.

#include "core/base/line_diff.h"

#include <gtest/gtest.h>

namespace xrun::line_diff_test {
namespace {

using Texts = std::vector<std::string>;

Texts text_of(std::string_view first, std::string_view second, size_t around = 1) {
  return diff_text(diff_lines(first, second), around);
}

TEST(LineDiff, EqualTextsHaveNoDifferences) {
  EXPECT_TRUE(text_of("a\nb\n", "a\nb\n").empty());
  EXPECT_TRUE(text_of("", "").empty());
  EXPECT_EQ(diff_lines("a\nb\n", "a\nb\n").size(), 2u);
}

TEST(LineDiff, ShowsAChangedLineWithItsNeighbours) {
  EXPECT_EQ(text_of("a\nb\nc\nd\n", "a\nX\nc\nd\n"),
            (Texts{"    1  a", "-   2  b", "+   2  X", "    3  c"}));
}

TEST(LineDiff, AnAddedLineLeavesTheOthersCommon) {
  EXPECT_EQ(text_of("a\nb\nb\nc\n", "a\nb\nnew\nb\nc\n", 0), (Texts{"+   3  new"}));
  EXPECT_EQ(text_of("a\nb\nc\n", "b\nc\na\n", 0), (Texts{"-   1  a", "...", "+   3  a"}));
}

TEST(LineDiff, DistantChangesAreSeparated) {
  EXPECT_EQ(text_of("1\n2\n3\n4\n5\n", "x\n2\n3\n4\ny\n", 0),
            (Texts{"-   1  1", "+   1  x", "...", "-   5  5", "+   5  y"}));
}

TEST(LineDiff, OneSideMayBeEmpty) {
  EXPECT_EQ(text_of("", "a\n"), (Texts{"+   1  a"}));
  EXPECT_EQ(text_of("a", ""), (Texts{"-   1  a"}));
}

TEST(LineDiff, HugeDifferencesTakeBoundedTime) {
  std::string first = "same\n";
  std::string second = "same\n";
  for (int i = 0; i < 50000; ++i) {
    first += std::to_string(i) + "\n";
    second += std::to_string(-i) + "\n";
  }
  const auto lines = diff_lines(first + "end", second + "end");
  EXPECT_EQ(lines.front().side, LineSide::kBoth);
  EXPECT_EQ(lines.back(), (DiffLine{LineSide::kBoth, 50002, "end"}));
}

}  // namespace
}  // namespace xrun::line_diff_test
