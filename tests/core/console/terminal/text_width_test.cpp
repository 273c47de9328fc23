// The width of a text counts terminal columns, and cutting it never splits a character.

#include "core/console/terminal/text_width.h"

#include <gtest/gtest.h>

namespace xrun::text_width_test {
namespace {

TEST(TextWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(text_width("abc"), 3);
  EXPECT_EQ(text_width("ü"), 1);
  EXPECT_EQ(text_width("u\u0308"), 1);
  EXPECT_EQ(text_width("日本語"), 6);
  EXPECT_EQ(text_width("ｗｉｄｅ"), 8);
  EXPECT_EQ(text_width("\x1b[31mred\x1b[0m"), 3);
  EXPECT_EQ(text_width(""), 0);
}

TEST(TextWidth, AnEscapeSequenceEndsAtAnyOtherByte) {
  EXPECT_EQ(text_width("\x1b[38:2::1:2:3 qx"), 1);
  EXPECT_EQ(text_width("\x1b[日本m"), 7);
  EXPECT_EQ(text_width("\x1b[3\nm"), 5);
}

TEST(TextWidth, AHangulSyllableOfJamoTakesTwo) {
  EXPECT_EQ(text_width("한"), 2);
  EXPECT_EQ(text_width("\u1112\u1161\u11ab"), 2);
}

TEST(TextWidth, EmojiTakeTwoColumnsEvenJoinedOrTinted) {
  EXPECT_EQ(text_width("😀"), 2);
  EXPECT_EQ(text_width("\U0001F468\u200D\U0001F469\u200D\U0001F467"), 2);
  EXPECT_EQ(text_width("\U0001F44D\U0001F3FD"), 2);
  EXPECT_EQ(text_width("\U0001F1EB\U0001F1F7"), 2);
  EXPECT_EQ(text_width("\U0001FAE8"), 2);  // of Unicode 15
}

TEST(TextWidth, JoinersBetweenLettersJoinNoColumns) {
  EXPECT_EQ(text_width("क\u200Dष"), 2);
  EXPECT_EQ(text_width("a\u200C\u200Db"), 2);
}

TEST(TextWidth, InvalidBytesTakeOneEach) {
  EXPECT_EQ(text_width("\xff"), 1);
  EXPECT_EQ(text_width("a\xe4\xb8"), 3);
  EXPECT_EQ(text_width("\xed\xa0\x80"), 3);
}

TEST(TextCharacter, IncludesItsCombiningMarks) {
  const std::string text = "e\u0301\u0323x";
  EXPECT_EQ(text_character(text, 0).size, 5u);
  EXPECT_EQ(text_character(text, 5).size, 1u);
  EXPECT_EQ(text_character("\x1b[38;5;9mx", 0).size, 9u);
  EXPECT_EQ(text_character("\x1b", 0).columns, 1);
  // Three regional letters are one flag and one letter.
  EXPECT_EQ(text_character("\U0001F1EB\U0001F1F7\U0001F1EB", 0).size, 8u);
}

TEST(CutToWidth, EndsWithAnEllipsisAndResetsTheColour) {
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdef", 4), "abc…");
  EXPECT_EQ(cut_to_width("日本語", 4), "日…");
  EXPECT_EQ(cut_to_width("\x1b[31mabcdef\x1b[0m", 3), "\x1b[31mab…\x1b[0m");
  EXPECT_EQ(cut_to_width("\x1b[31mab\x1b[0mcdef", 4), "\x1b[31mab\x1b[0mc…");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

TEST(CutToWidth, NeverSplitsACharacter) {
  EXPECT_EQ(cut_to_width("ae\u0301b", 2), "a…");
  EXPECT_EQ(cut_to_width("e\u0301bc", 2), "e\u0301…");
  EXPECT_EQ(fitting_size("日本", 3), 3u);
  EXPECT_EQ(fitting_size("日本", 1), 0u);
}

TEST(PadToWidth, GivesExactlyTheColumns) {
  EXPECT_EQ(pad_to_width("日", 4), "日  ");
  EXPECT_EQ(pad_to_width("日本語", 4), "日… ");
  EXPECT_EQ(pad_to_width("", 2), "  ");
  EXPECT_EQ(pad_to_width("abc", 0), "");
}

}  // namespace
}  // namespace xrun::text_width_test
