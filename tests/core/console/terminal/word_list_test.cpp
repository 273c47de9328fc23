#include "core/console/terminal/word_list.h"

#include <gtest/gtest.h>

namespace xrun::word_list_test {
namespace {

TEST(WordList, MeaningsAreBrokenBesideTheirNames) {
  EXPECT_EQ(word_list({{":a", "one two three four five six seven"}, {":long", "x"}}, 40),
            ":a     one two three four five six seven\n:long  x\n");
  EXPECT_EQ(word_list({{":a", "one two three four five six seven"}, {":long", "x"}}, 37),
            ":a     one two three four five six\n       seven\n:long  x\n");
}

TEST(WordList, ANarrowScreenHasMeaningsBelow) {
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

}  // namespace
}  // namespace xrun::word_list_test
