// NeMo-RL's aligner: rules by hand. dp_golden_test.cpp compares with NeMo-RL itself.

#include "core/align/dp_align.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/align/dp_canonical.h"
#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::dp_align_test {
namespace {

std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

// Pieces stand between spaces.
Alignment align(std::string_view student, std::string_view teacher, const DpOptions& options = {}) {
  return DpAligner(options).align(pieces_of(student), pieces_of(teacher));
}

std::vector<std::string> canonical(std::string_view text) {
  CanonicalStrings strings;
  const CanonicalTokens tokens = strings.tokens(pieces_of(text));
  std::vector<std::string> out;
  for (int32_t n = 0; n < tokens.size(); ++n) out.emplace_back(tokens.text(n, n + 1));
  return out;
}

using Texts = std::vector<std::string>;

TEST(DpAlign, EqualTokensPairOneToOne) {
  EXPECT_EQ(align("Hello Ġworld !", "Hello Ġworld !"),
            (Alignment{{0, 1, 0, 1, true}, {1, 2, 1, 2, true}, {2, 3, 2, 3, true}}));
}

TEST(DpAlign, OneTokenTakesUpToFourAndARepairTakesMore) {
  EXPECT_EQ(align("201", "2 0 1"), (Alignment{{0, 1, 0, 3, true}}));
  EXPECT_EQ(align("1234", "1 2 3 4"), (Alignment{{0, 1, 0, 4, true}}));
  EXPECT_EQ(align("1 2 3 4", "1234"), (Alignment{{0, 4, 0, 1, true}}));
  EXPECT_EQ(align("12345", "1 2 3 4 5"), (Alignment{{0, 1, 0, 5, true}}));
}

TEST(DpAlign, TokensThatCrossAreFusedByARepair) {
  EXPECT_EQ(align("ab c", "a bc"), (Alignment{{0, 2, 0, 2, true}}));
  const Alignment three = {{0, 1, 0, 1, true}, {1, 2, 1, 2, true}, {2, 3, 2, 3, true}};
  Alignment wanted = three;
  wanted.push_back({3, 5, 3, 5, true});
  for (int32_t n = 5; n < 8; ++n) wanted.push_back({n, n + 1, n, n + 1, true});
  EXPECT_EQ(align("X Y Z ab c P Q R", "X Y Z a bc P Q R"), wanted);
  wanted = three;
  wanted.push_back({3, 6, 3, 5, true});
  for (int32_t n = 5; n < 8; ++n) wanted.push_back({n + 1, n + 2, n, n + 1, true});
  EXPECT_EQ(align("X Y Z ab c d P Q R", "X Y Z a bcd P Q R"), wanted);
}

TEST(DpAlign, ATokenWithoutPartnerIsAnOrphan) {
  EXPECT_EQ(align("<|begin_of_text|> Hi Ġthere", "Hi Ġthere"),
            (Alignment{{0, 1, -1, -1, false}, {1, 2, 0, 1, true}, {2, 3, 1, 2, true}}));
  EXPECT_EQ(align("<|begin_of_text|> Hi Ġthere", "<bos> Hi Ġthere"),
            (Alignment{{0, 1, 0, 1, true}, {1, 2, 1, 2, true}, {2, 3, 2, 3, true}}));
  EXPECT_EQ(align("cat", "dog"), (Alignment{{0, 1, 0, 1, false}}));
}

TEST(DpAlign, AnEmptySideGivesOrphansThatAreFused) {
  EXPECT_EQ(align("", ""), Alignment{});
  EXPECT_EQ(align("a", ""), (Alignment{{0, 1, -1, -1, false}}));
  // The last of five pairs is in the last 20 %, which fusing leaves alone.
  EXPECT_EQ(align("", "a b c d e"), (Alignment{{-1, -1, 0, 4, false}, {-1, -1, 4, 5, false}}));
}

TEST(DpAlign, PaddingIsAnEmptyTextThatJoinsItsNeighbourOrIsACorrectOrphan) {
  EXPECT_EQ(align("a <pad>", "a"), (Alignment{{0, 2, 0, 1, true}}));
  EXPECT_EQ(align("<pad>", ""), (Alignment{{0, 1, -1, -1, true}}));
}

TEST(DpAlign, SpansCountPiecesNotCanonicalTokens) {
  EXPECT_EQ(align("Hello ĠâĪ ĳ .", "Hello Ġ∑ ."),
            (Alignment{{0, 1, 0, 1, true}, {1, 3, 1, 2, true}, {3, 4, 2, 3, true}}));
}

TEST(DpAlign, ChineseOfSentencePieceAndOfBytesIsWrong) {
  // The alignment recognises only those of the four characters that a fixed table holds; the walker
  // gets them all.
  const Alignment pairs = align("中 国", "ä¸Ń åĽ ½");
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0], (AlignedPair{0, 1, 0, 1, true}));
  EXPECT_FALSE(pairs[1].correct);
}

TEST(DpAlign, EqualSequencesGiveTheIdentity) {
  std::string text = "the";
  for (int i = 0; i < 300; ++i) text += i % 7 == 0 ? " Ġx" : i % 3 == 0 ? " aa" : " a";
  const Alignment pairs = align(text, text);
  ASSERT_EQ(pairs.size(), 301u);
  for (int32_t n = 0; n < 301; ++n) EXPECT_EQ(pairs[n], (AlignedPair{n, n + 1, n, n + 1, true}));
}

TEST(DpAlign, ManyDistinctPiecesFindTheirEquals) {
  std::string student, teacher;
  for (int i = 0; i < 5000; ++i) {
    student += fmt::format("{}n{}", i > 0 ? " " : "", i);
    teacher += fmt::format("{}n{}{}", i > 0 ? " " : "", i, i == 3000 ? " x" : "");
  }
  const Alignment pairs = align(student, teacher);
  ASSERT_EQ(pairs.size(), 5001u);
  for (int32_t n = 0; n < 5001; ++n) {
    const int32_t s = n - (n > 3000);
    const AlignedPair wanted{s, s + 1, n, n + 1, true}, orphan{-1, -1, n, n + 1, false};
    EXPECT_EQ(pairs[n], n == 3001 ? orphan : wanted) << n;
  }
}

TEST(DpAlign, OptionsOutOfRangeAndTooLongStretchesAreErrors) {
  EXPECT_EQ(error_of([] { align("a", "a", {.max_combination = 8}); }),
            "dp alignment: max_combination is 8, wanted 1 to 7");
  const std::vector<std::string_view> a(2000, "a"), b(1000, "a");
  EXPECT_EQ(error_of([&] { DpAligner({.trace_mb = 1}).align(a, b); }),
            "dp alignment: 2000 student and 1000 teacher tokens without an anchor need 2 MB, "
            "wanted at most 1; align shorter texts");
}

TEST(DpCanonical, APieceIsMadeCanonicalInTheReferencesOrder) {
  const std::vector<std::pair<const char*, const char*>> forms = {
      {"_x", "Ġx"},       {"▁x", "Ġx"},       {" x", "Ġx"},
      {"▁▁x", "Ġ▁x"},     {"Ċ", "\n"},        {"\\n", "\n"},
      {"ĉ", "\n"},        {"▁\n", "\n"},      {"ĠĊ", "Ġ\n"},
      {"Ċ\\n", "\n\\n"},  {"a\\nb", "a\nb"},  {"▁,", ","},
      {"Ġ.", "."},        {"Ġ!", "Ġ!"},       {"<0x0A>", "\n"},
      {"<0xC3>", "Ã"},    {"<0x1>", "<0x1>"}, {"<0xGG>", "<0xGG>"},
      {"Ã±", "ñ"},        {"Ã¢", "À¢"},       {"Ã", "À"},
      {"ä¸Ńæĸĩ", "中文"}, {"à¤¿à¤Ĥ", "हिं"},   {"âī¥", "≥"},
      {"<pad>", ""},      {"", ""},           {"<|begin_of_text|>", "<bos>"}};
  for (const auto& [piece, form] : forms) EXPECT_EQ(canonical_token(piece), form) << piece;
}

TEST(DpCanonical, TwoPiecesOfATableBecomeOneSign) {
  EXPECT_EQ(canonical("âī ł Ġâī ł âī ₤"), (Texts{"≠", "Ġ≠", "âī", "₤"}));
}

TEST(DpCanonical, ARunOfBytesBecomesACharacterOnlyAsAWhole) {
  EXPECT_EQ(canonical("中 <0xE2> <0x82> <0xAC> 中"), (Texts{"中", "€", "中"}));
  EXPECT_EQ(canonical("Ġâ <0x82> ¬"), (Texts{"Ġ€"}));
  // ASCII text belongs to the run.
  EXPECT_EQ(canonical("a <0xE2> <0x82> <0xAC>"), (Texts{"a", "â", "\xC2\x82", "¬"}));
  // "Ã" has been replaced before bytes are decoded.
  EXPECT_EQ(canonical("Ã ©"), (Texts{"À", "©"}));
  // U+0125 is the byte 128 here, 131 in GPT-2's alphabet.
  EXPECT_EQ(canonical("Ġâ ĥ ¬"), (Texts{"Ġ\u202C"}));
}

}  // namespace
}  // namespace xrun::dp_align_test
