// The hand-written splitters cut like their regexes in PCRE2.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/tokenizer/text_pattern.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/core/text/tokenizer/generated_strings.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::text_splitters_test {

namespace {

constexpr const char* kRegexes[] = {
    // GPT-2, Llama-3, Qwen2, Qwen3.5, o200k, tekken, and the three stages of DeepSeek-V3
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"(\p{N}{1,3})",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};

std::string cut(const TextPattern& pattern, std::string_view text) {
  std::vector<Stretch> stretches;
  pattern.find(text, stretches);
  std::string out;
  for (const Stretch& s : stretches) {
    out += (s.is_match ? "[" : "(") + std::string(text.substr(s.begin, s.end - s.begin)) + "]";
  }
  return out;
}

TEST(TextSplitters, CutLikeTheirRegex) {
  const Json texts = read_json(source_path("tests/golden/tokenizer_strings.json"));
  const GeneratedStrings generated;
  for (const char* regex : kRegexes) {
    const auto splitter = make_known_splitter(regex);
    ASSERT_NE(splitter, nullptr) << regex;
    const auto pcre2 = make_regex_pattern(regex, "test");
    for (const Json& text : texts.as_array()) {
      ASSERT_EQ(cut(*splitter, text.as_string()), cut(*pcre2, text.as_string())) << regex;
    }
    for (uint64_t i = 0; i < 10'000; ++i) {
      const std::string text = generated(i);
      ASSERT_EQ(cut(*splitter, text), cut(*pcre2, text)) << regex;
    }
  }
  EXPECT_EQ(make_known_splitter(R"(\p{L}+)"), nullptr);
}

TEST(TextSplitters, Gpt2KeepsASpaceWithTheWordAfterIt) {
  EXPECT_EQ(cut(*make_gpt2_splitter(), "it's  so 12ab\n"), "[it]['s][ ][ so][ 12][ab][\n]");
}

TEST(RegexPattern, ABadRegexIsNamedWithItsPath) {
  EXPECT_NE(error_of([] {
              make_regex_pattern("(a", "file: key");
            }).find("file: key: the regex (a cannot be compiled: "),
            std::string::npos);
}

TEST(RegexPattern, ARegexThatBacktracksForeverIsAnError) {
  const auto pattern = make_regex_pattern("(a+)+$|(a|aa)+b", "test");
  std::vector<Stretch> out;
  const std::string text(60, 'a');
  EXPECT_NE(error_of([&] { pattern->find(text + "c", out); }).find("failed on a text of 61 bytes"),
            std::string::npos);
}

TEST(RegexPattern, CharactersNewerThanPcre2sTablesKeepTheirCategory) {
  // U+1C89 is a letter newer than these tables; U+180E is a space to PCRE2 only.
  EXPECT_EQ(cut(*make_regex_pattern(R"(\p{Lu}+)", ""), "a\u1C89b"), "(a][\u1C89](b]");
  EXPECT_EQ(cut(*make_regex_pattern(R"(\s+)", ""), "a\u180Eb"), "(a\u180Eb]");
}

TEST(LiteralPattern, MatchesFromLeftToRight) {
  EXPECT_EQ(cut(*make_literal_pattern("aa"), "aaab"), "[aa](ab]");
}

}  // namespace

}  // namespace xrun::text_splitters_test
