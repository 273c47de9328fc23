// The normalization table finds its replacements, and a damaged one is refused.

#include "core/text/tokenizer/charsmap.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/scratch_folder.h"

namespace xrun::charsmap_test {

namespace {

// Returns a table in which 'A' leads to a leaf with the given value.
std::string table(std::string_view texts, uint32_t leaf = 1u << 31) {
  std::vector<uint32_t> units(512, 0);
  units[0] = 0;                          // the root's children begin at 0
  units['A'] = 'A' | 1u << 8 | 1 << 10;  // a leaf follows, at 'A' ^ 1
  units['A' ^ 1] = leaf;
  std::string bytes;
  const auto put = [&](uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes.push_back(char(value >> (8 * i)));
  };
  put(uint32_t(units.size() * 4));
  for (const uint32_t unit : units) put(unit);
  return bytes.append(texts);
}

TEST(Charsmap, FindsTheReplacementOfAPrefix) {
  const Charsmap map(table(std::string("xy\0", 3)), "test");
  EXPECT_EQ(map.find("A"), "xy");
  EXPECT_EQ(map.find("AB"), "xy");
  EXPECT_FALSE(map.find("B"));
  EXPECT_FALSE(map.find(""));
  EXPECT_TRUE(map.is_sound());
}

TEST(Charsmap, AnOffsetOutsideTheTextsIsUnknownAndUnsound) {
  const Charsmap map(table(std::string("xy\0", 3), 1u << 31 | 3), "test");
  EXPECT_FALSE(map.find("A"));
  EXPECT_FALSE(map.is_sound());
}

TEST(Charsmap, TextsWithoutAnEndAreNotSound) {
  EXPECT_FALSE(Charsmap(table("xy"), "test").is_sound());
}

TEST(Charsmap, AWrongSizeIsAnError) {
  for (const std::string& bytes : {std::string(), std::string("\x08\0\0\0abcd", 8),
                                   std::string("\x03\0\0\0abcd", 8), std::string(4, '\0')}) {
    EXPECT_NE(error_of([&] { Charsmap(bytes, "file"); }).find("file: the table of"),
              std::string::npos);
  }
}

TEST(Charsmap, Base64NeedsItsPadding) {
  EXPECT_EQ(decode_base64("YWJj"), "abc");
  EXPECT_EQ(decode_base64("YWI="), "ab");
  EXPECT_EQ(decode_base64("YQ=="), "a");
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_FALSE(decode_base64("YWI"));
  EXPECT_FALSE(decode_base64("Y=I="));
  EXPECT_FALSE(decode_base64("Y!Jj"));
}

}  // namespace

}  // namespace xrun::charsmap_test
