// Added tokens are found leftmost and longest, in linear time.

#include "core/text/tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/base/json.h"
#include "tests/error_of.h"

namespace xrun::added_tokens_test {
namespace {

std::unique_ptr<const Normalizer> normalizer_of(const std::string& type) {
  const Json json =
      parse_json(R"({"type": ")" + type + R"(", "strip_left": true, "strip_right": true})", "json");
  return make_normalizer({json, "test"});
}

// "id@begin-end" of every match in the text, in order.
std::string found_in(const AddedTokens& tokens, const std::string& text, bool normalized = false) {
  std::vector<AddedMatch> matches;
  EncodeOptions options;
  options.all_special = true;
  tokens.find_all(AlignedText(text, 0), normalized, SpecialRanges(options), matches);
  std::string out;
  for (const AddedMatch& m : matches) {
    out += (out.empty() ? "" : " ") + fmt::format("{}@{}-{}", m.id, m.begin, m.end);
  }
  return out;
}

AddedToken plain(int32_t id, std::string content) {
  AddedToken token;
  token.id = id;
  token.content = std::move(content);
  token.normalized = false;
  return token;
}

TEST(AddedTokens, TheFirstOfTwoWithTheSameNormalFormIsFound) {
  const auto lower = normalizer_of("Lowercase");
  const AddedTokens tokens({{.id = 3, .content = "ABC"}, {.id = 4, .content = "abc"}}, lower.get());
  EXPECT_EQ(found_in(tokens, "xabcx", true), "3@1-4");
}

TEST(AddedTokens, TheLongestOfTheLeftmostIsFound) {
  const AddedTokens tokens({plain(0, "a"), plain(1, "abc"), plain(2, "bcd"), plain(3, "abcde"),
                            plain(4, "cd"), plain(5, "d")},
                           nullptr);
  EXPECT_EQ(found_in(tokens, "abcd"), "1@0-3 5@3-4");
  EXPECT_EQ(found_in(tokens, "abcde"), "3@0-5");
  EXPECT_EQ(found_in(tokens, "xbcdcd"), "2@1-4 4@4-6");
  EXPECT_EQ(found_in(tokens, "aabcab"), "0@0-1 1@1-4 0@4-5");
}

// If all tokens end with the same byte, the text is searched for that byte.
TEST(AddedTokens, TokensWithTheSameLastByteAreFoundEverywhere) {
  const AddedTokens tokens({plain(0, "<a>"), plain(1, "<b>"), plain(2, "x>>")}, nullptr);
  EXPECT_EQ(found_in(tokens, ""), "");
  EXPECT_EQ(found_in(tokens, ">"), "");
  EXPECT_EQ(found_in(tokens, "<a>> x>> <<b><a"), "0@0-3 2@5-8 1@10-13");
  EXPECT_EQ(found_in(tokens, "<a><b>"), "0@0-3 1@3-6");
}

TEST(AddedTokens, AForbiddenSpecialTokenLeavesAShorterMatch) {
  AddedToken special = plain(1, "abc");
  special.special = true;
  const AddedTokens tokens({plain(0, "ab"), special, plain(2, "c")}, nullptr);
  std::vector<AddedMatch> matches;
  tokens.find_all(AlignedText("abcabc", 0), false, SpecialRanges(EncodeOptions()), matches);
  ASSERT_EQ(matches.size(), 4u);
  EXPECT_EQ(matches[1].id, 2);
  EXPECT_EQ(found_in(tokens, "abcabc"), "1@0-3 1@3-6");
}

TEST(AddedTokens, ABlankTokenTakenByThePreviousMatchIsNotFoundAgain) {
  AddedToken line = plain(3, "\n");
  line.lstrip = line.rstrip = true;
  const AddedTokens tokens({line}, nullptr);
  EXPECT_EQ(found_in(tokens, "a\n\nb"), "3@1-3");
  EXPECT_EQ(found_in(tokens, "a\n \n b\n"), "3@1-5 3@6-7");
}

TEST(AddedTokens, ATokenThatNormalisesToNothingIsAnError) {
  const auto strip = normalizer_of("Strip");
  EXPECT_EQ(message_of<Error>([&] { AddedTokens({{.id = 3, .content = "  "}}, strip.get()); }),
            "the added token \"  \" is empty once it is normalised; set its \"normalized\" to "
            "false");
}

TEST(AddedTokens, ALongTokenThatNearlyMatchesEverywhereTakesLinearTime) {
  const std::string run(20'000, 'a');
  const AddedTokens tokens({plain(0, run + "b"), plain(1, "b" + run)}, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(found_in(tokens, std::string(400'000, 'a')), "");
  EXPECT_EQ(found_in(tokens, std::string(400'000, 'a') + "b"), "0@380000-400001");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

// Returns the notice for a vocabulary of a, b, c.
std::string notice_of(std::vector<AddedToken> added) {
  Vocabulary vocabulary;
  for (int32_t id = 0; id < 3; ++id) vocabulary.add(std::string(1, char('a' + id)), id);
  vocabulary.finish("test");
  return package_numbering(added, vocabulary);
}

TEST(PackageNumbering, IdsWithoutGapsGiveNoNotice) {
  EXPECT_EQ(notice_of({{.id = 3, .content = "<x>"}, {.id = 4, .content = "<y>"}}), "");
  EXPECT_EQ(notice_of({{.id = 1, .content = "b"}, {.id = 3, .content = "<x>"}}), "");
  EXPECT_EQ(notice_of({}), "");
}

TEST(PackageNumbering, AGapIsReportedWithBothIds) {
  EXPECT_EQ(notice_of({{.id = 10, .content = "<x>"}}),
            "the added token \"<x>\" has the id 10 in tokenizer.json, which is kept; transformers "
            "gives it 3");
  EXPECT_EQ(notice_of({{.id = 10, .content = "<x>"}, {.id = 20, .content = "<y>"}}),
            "the added token \"<x>\" has the id 10 in tokenizer.json, which is kept; transformers "
            "gives it 3 (and 1 more)");
}

}  // namespace
}  // namespace xrun::added_tokens_test
