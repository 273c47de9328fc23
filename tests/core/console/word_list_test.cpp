#include "core/console/word_list.h"

#include <gtest/gtest.h>

namespace xrun {
namespace {

TEST(WordList, MeaningsAreBrokenBesideTheirNames) {
  EXPECT_EQ(word_list({{":a", "one two three four five six seven"}, {":long", "x"}}, 40),
            ":a     one two three four five six seven\n:long  x\n");
  EXPECT_EQ(word_list({{":a", "one two three four five six seven"}, {":long", "x"}}, 37),
            ":a     one two three four five six\n       seven\n:long  x\n");
}

TEST(WordList, ANarrowScreenHasMeaningsBelow) {
  EXPECT_EQ(word_list({{":name", "one two three"}}, 10), ":name\n  one two\n  three\n");
  EXPECT_EQ(broken_lines("incomprehensible", 4), std::vector<std::string>{"incomprehensible"});
}

}  // namespace
}  // namespace xrun
