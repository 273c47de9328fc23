// Split points lie only between neighbours that no tokenizer joins.

#include "core/text/tokenizer/safe_split.h"

#include <gtest/gtest.h>

#include <string>

namespace xrun::safe_split_test {

namespace {

// Returns the text with every split point marked.
std::string marked(const std::string& text, SplitKinds kinds) {
  std::string out = text;
  for (size_t at = text.size() - 1; at > 0; --at) {
    if (find_safe_split(text, at - 1, at, kinds) == at) out.insert(at, "|");
  }
  return out;
}

TEST(SafeSplit, ASpaceSplitIsASingleSpaceBetweenLetters) {
  EXPECT_EQ(marked("ab cd. ef  gh 1 i\tj k'l м н 字 x 한 글", {true, false}),
            "ab| cd. ef  gh 1 i\tj| k'l| м| н 字 x| 한| 글");
}

TEST(SafeSplit, ALineSplitFollowsASingleLineFeedBetweenVisibleCharacters) {
  EXPECT_EQ(marked("ab\ncd.\nef\n\ngh \nij\n k\n1\nl。\n字\r\nm\u3000\nn\né", {false, true}),
            "ab\n|cd.\n|ef\n\ngh \nij\n k\n1\n|l。\n|字\r\nm\u3000\nn\né");
}

TEST(SafeSplit, TheLastPointWithinReachIsPreferredToTheFirstBeyond) {
  const std::string text = "aa bb cc dd ee";
  EXPECT_EQ(find_safe_split(text, 0, 7, {true, false}), 5u);
  EXPECT_EQ(find_safe_split(text, 5, 7, {true, false}), 8u);
  EXPECT_EQ(find_safe_split(text, 11, 12, {true, false}), text.size());
  EXPECT_EQ(find_safe_split(text, 0, 7, {false, true}), text.size());
}

}  // namespace

}  // namespace xrun::safe_split_test
