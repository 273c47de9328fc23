// Translated regexes cut text where Hugging Face's tokenizers cut it.

#include "core/text/tokenizer/regex_syntax.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/tokenizer/text_pattern.h"
#include "tests/tree.h"

namespace xrun::regex_syntax_test {
namespace {

std::string error_for(const std::string& regex) {
  try {
    pcre2_syntax(regex, "file");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(RegexSyntax, CutsWhereHuggingFacesTokenizersCut) {
  const Json cases = read_json(source_path("tests/golden/regex_syntax.json"));
  ASSERT_GT(cases.size(), 200u);
  for (const Json& one : cases.as_array()) {
    const std::string& regex = one.as_array()[0].as_string();
    const std::string& text = one.as_array()[1].as_string();
    const auto pattern = make_regex_pattern(regex, "file");
    std::vector<Stretch> stretches;
    pattern->find(text, stretches);
    Json pieces = Json::array();
    for (const Stretch& stretch : stretches) {
      if (stretch.begin == stretch.end) continue;
      pieces.push_back(text.substr(stretch.begin, stretch.end - stretch.begin));
    }
    EXPECT_EQ(dump_json(pieces), dump_json(one.as_array()[2])) << regex << " on " << text;
  }
}

TEST(RegexSyntax, LeavesOtherSyntaxUnchanged) {
  for (const char* regex :
       {"(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*",
        "\\s+(?!\\S)|\\s+", "(?<x>a)\\k{x}", "[^[:space:]]+", "\\p{Han}{2,}?", "\\x{4e2d}*+", ""}) {
    EXPECT_EQ(pcre2_syntax(regex, "file"), regex);
  }
}

TEST(RegexSyntax, AnExcerptIsEightyBytesAroundAnOffset) {
  std::string regex;
  for (int i = 0; i < 100; ++i) regex += "(é" + std::to_string(i % 10) + ")";
  EXPECT_EQ(regex_excerpt("(a", 1), "(a");
  EXPECT_EQ(regex_excerpt(regex, 0).substr(0, 5), "(é0)");
  EXPECT_EQ(regex_excerpt(regex, 0).size(), 83u);
  const std::string middle = regex_excerpt(regex, 250);
  EXPECT_TRUE(middle.starts_with("...") && middle.ends_with("...")) << middle;
  EXPECT_LE(middle.size(), 86u);
  EXPECT_TRUE(regex_excerpt(regex, regex.size()).ends_with("9)"));
  const std::string deep = error_for(std::string(3000, 'a') + std::string(3000, '['));
  EXPECT_NE(deep.find("...aaa"), std::string::npos) << deep;
  EXPECT_LT(deep.size(), 300u) << deep;
  try {
    make_regex_pattern(std::string(10'000, '('), "file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 300u) << error.what();
  }
}

TEST(RegexSyntax, RefusesRegexesWithoutAPcre2Form) {
  EXPECT_EQ(error_for("[^a&&b]"),
            "file: the regex [^a&&b] has a negated class with &&, which is not supported");
  EXPECT_NE(error_for("[a[^b]c]").find("a negated class inside another one"), std::string::npos);
  EXPECT_NE(error_for("[ab").find("a class without its end"), std::string::npos);
  EXPECT_NE(error_for(std::string(5000, '[')).find("nested too deep"), std::string::npos);
}

}  // namespace
}  // namespace xrun::regex_syntax_test
