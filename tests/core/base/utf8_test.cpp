// UTF-8 is accepted exactly where it is valid and repaired as Python repairs it.

#include "core/base/utf8.h"

#include <gtest/gtest.h>

namespace xrun::utf8_test {
namespace {

TEST(Utf8, RoundTripsTheEdgesOfEachLength) {
  for (uint32_t value : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFDu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(text, value);
    const CodePoint point = read_utf8(text, 0);
    EXPECT_TRUE(point.valid);
    EXPECT_EQ(point.value, value);
    EXPECT_EQ(point.size, text.size());
  }
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndValuesBeyondUnicode) {
  for (std::string text :
       {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    EXPECT_FALSE(is_valid_utf8(text));
    EXPECT_FALSE(read_utf8(text, 0).valid);
  }
}

// Expected strings are Python's b"...".decode("utf-8", "replace").
TEST(Utf8, RepairsLikePythonsReplace) {
  int64_t repaired = 0;
  EXPECT_EQ(repair_utf8("a\xE2\x82z", &repaired), "a\xEF\xBF\xBDz");
  EXPECT_EQ(repaired, 1);
  EXPECT_EQ(repair_utf8("\xED\xA0\x80", &repaired), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(repaired, 4);
  EXPECT_EQ(repair_utf8("\xF0\x9F\x98\x80", &repaired), "\xF0\x9F\x98\x80");
  EXPECT_EQ(repaired, 4);
}

TEST(Utf8, ShortensBetweenTwoCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc...");
  EXPECT_EQ(shortened("ab\xE6\xBC\xA2", 5), "ab\xE6\xBC\xA2");
  EXPECT_EQ(shortened("ab\xE6\xBC\xA2z", 4), "ab...");
  EXPECT_EQ(shortened("\xE6\xBC\xA2", 1), "...");
}

TEST(Utf8, OpenBytesBeginACharacterThatHasNotEnded) {
  EXPECT_EQ(open_utf8_bytes(""), 0u);
  EXPECT_EQ(open_utf8_bytes("ab"), 0u);
  EXPECT_EQ(open_utf8_bytes("a\xE6\xBC\xA2"), 0u);
  EXPECT_EQ(open_utf8_bytes("a\xE6"), 1u);
  EXPECT_EQ(open_utf8_bytes("a\xE6\xBC"), 2u);
  EXPECT_EQ(open_utf8_bytes("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(open_utf8_bytes("\xFF"), 0u) << "not a lead byte";
  EXPECT_EQ(open_utf8_bytes("a\x80\x80"), 0u) << "no lead byte";
}

}  // namespace
}  // namespace xrun::utf8_test
