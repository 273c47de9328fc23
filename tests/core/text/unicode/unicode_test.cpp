// Character classes equal those of the regex engine in Hugging Face's tokenizers.

#include "core/text/unicode/unicode.h"

#include <gtest/gtest.h>

namespace xrun::unicode_test {

namespace {

TEST(Unicode, KindsMatchTheRegexEngine) {
  EXPECT_EQ(char_kind('a'), CharKind::kLetter);
  EXPECT_EQ(char_kind(0x4E00), CharKind::kLetter);
  EXPECT_EQ(char_kind(0x0660), CharKind::kNumber);
  EXPECT_EQ(char_kind(0x2167), CharKind::kNumber);  // a Roman numeral
  EXPECT_EQ(char_kind(0x00B2), CharKind::kNumber);  // superscript two
  EXPECT_EQ(char_kind(0x0301), CharKind::kOther);   // a mark is not a letter
  EXPECT_EQ(char_kind(0x180E), CharKind::kOther);   // no longer a space
  EXPECT_EQ(char_kind(0x1F600), CharKind::kOther);
  EXPECT_EQ(char_kind(0x32000), CharKind::kLetter);  // CJK extension H, Unicode 15
}

TEST(Unicode, ThereAreTwentyFiveSpaces) {
  int spaces = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) spaces += char_kind(c) == CharKind::kSpace;
  EXPECT_EQ(spaces, 25);
  EXPECT_EQ(char_kind(0x0085), CharKind::kSpace);
  EXPECT_EQ(char_kind(0x3000), CharKind::kSpace);
}

TEST(Unicode, UpperPlanesFollowARule) {
  EXPECT_EQ(category(0xE0001), Category::kCf);
  EXPECT_EQ(category(0xE0100), Category::kMn);
  EXPECT_EQ(category(0xF0000), Category::kCo);
  EXPECT_EQ(category(0xFFFFE), Category::kCn);
  EXPECT_EQ(category(0x10FFFD), Category::kCo);
  EXPECT_EQ(category(0x50000), Category::kCn);
  EXPECT_EQ(category(0x110000), Category::kCn);
}

TEST(Unicode, DigitsFollowANewerUnicodeThanNumbers) {
  EXPECT_TRUE(is_numeric(0x11DE0));
  EXPECT_NE(char_kind(0x11DE0), CharKind::kNumber);
  EXPECT_TRUE(is_numeric('7'));
  EXPECT_FALSE(is_numeric('x'));
}

TEST(Unicode, WordCharactersMatchRust) {
  for (const uint32_t c : {0x5Fu, 0x61u, 0x301u, 0x200Du, 0x24B6u, 0x2167u, 0x203Fu}) {
    EXPECT_TRUE(is_word(c)) << c;
  }
  for (const uint32_t c : {0x20u, 0x2Du, 0xB2u, 0x2014u, 0x1F600u}) EXPECT_FALSE(is_word(c)) << c;
}

}  // namespace

}  // namespace xrun::unicode_test
