// Counts, sizes, shell words and suggestions are spelled as people and Python spell them.

#include "core/base/strings.h"

#include <gtest/gtest.h>

namespace xrun::strings_test {
namespace {

TEST(CountText, GroupsDigitsByThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(5310), "5,310");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-1000), "-1,000");
}

TEST(FormatBytes, CountsInPowersOfAThousand) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1), "1 byte");
  EXPECT_EQ(format_bytes(999), "999 bytes");
  EXPECT_EQ(format_bytes(1e3), "1.0 KB");
  EXPECT_EQ(format_bytes(9.94e3), "9.9 KB");
  EXPECT_EQ(format_bytes(9.96e3), "10 KB");
  EXPECT_EQ(format_bytes(1.6e9), "1.6 GB");
  EXPECT_EQ(format_bytes(512e3), "512 KB");
}

TEST(CountText, OneHasNoPluralEnding) {
  EXPECT_EQ(counted(1, "pair"), "1 pair");
  EXPECT_EQ(counted(1024, "token"), "1,024 tokens");
  EXPECT_EQ(counted(2, "batch", "es"), "2 batches");
}

TEST(ShortestDecimal, IsSpelledAsPythonSpellsIt) {
  EXPECT_EQ(shortest_decimal(0.1), "0.1");
  EXPECT_EQ(shortest_decimal(1.0), "1.0");
  EXPECT_EQ(shortest_decimal(1e16), "1e+16");
  EXPECT_EQ(shortest_decimal(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(shortest_decimal(1e-5), "1e-05");
  EXPECT_EQ(shortest_decimal(0.0001), "0.0001");
}

TEST(ShellWord, QuotesOnlySpecialCharacters) {
  EXPECT_EQ(shell_word("runs/a-1.lua"), "runs/a-1.lua");
  EXPECT_EQ(shell_word("beta=0.3"), "beta=0.3");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("two words"), "'two words'");
  EXPECT_EQ(shell_word("it's $HOME"), R"('it'\''s $HOME')");
}

TEST(Suggest, CountsAnAdjacentSwapAsOneEdit) {
  EXPECT_EQ(edit_distance("beta", "beat"), 1);
  EXPECT_EQ(edit_distance("beta", "betta"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
}

TEST(Suggest, OffersTheNearestNameButNoDistantOne) {
  EXPECT_EQ(nearest_name("betta", {"beta", "batch"}), "beta");
  EXPECT_EQ(nearest_name("learning_rate", {"lr", "beta"}), "");
  EXPECT_EQ(nearest_name("x", {"lr"}), "");
  EXPECT_EQ(nearest_name("gama", {"gemm"}), "");
  EXPECT_EQ(nearest_name("gama", {"gemm", "gamma"}), "gamma");
}

TEST(Suggest, TiesGoToTheLongestCommonPrefix) {
  EXPECT_EQ(nearest_name("summ", {"smm", "sum"}), "sum");
  EXPECT_EQ(nearest_name("ab", {"b", "a"}), "a");
  EXPECT_EQ(nearest_name("xa", {"ya", "za"}), "ya");
}

TEST(Lists, ItemsAreSeparatedAndNotEnded) {
  std::string list;
  add_item(list, "a");
  EXPECT_EQ(list, "a");
  add_item(list, "b");
  add_item(list, "c", " --set ");
  EXPECT_EQ(list, "a, b --set c");
}

TEST(LowerCase, ChangesAsciiLettersOnly) {
  EXPECT_EQ(lower_case("Thumbs_UP 1"), "thumbs_up 1");
  EXPECT_EQ(lower_case("\xc3\x84"), "\xc3\x84");
}

TEST(WholeNumberOf, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(whole_number_of("0"), 0);
  EXPECT_EQ(whole_number_of("-12"), -12);
  EXPECT_EQ(whole_number_of("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"", " 1", "1 ", "+1", "1.0", "0x1", "9223372036854775808"}) {
    EXPECT_EQ(whole_number_of(text), std::nullopt) << text;
  }
}

TEST(Joined, HasTheSeparatorBetweenAllItems) {
  EXPECT_EQ(joined(std::vector<std::string>{}, ", "), "");
  EXPECT_EQ(joined(std::vector<std::string>{"a"}, ", "), "a");
  EXPECT_EQ(joined(std::vector<std::string>{"a", "", "b"}, "."), "a..b");
}

}  // namespace
}  // namespace xrun::strings_test
