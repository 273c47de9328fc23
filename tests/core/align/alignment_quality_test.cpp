// The quality report counts what is supervised and shows what is lost.

#include "core/align/alignment_quality.h"

#include <gtest/gtest.h>

#include "tests/core/align/piece_tokenizer.h"

namespace xrun::alignment_quality_test {

namespace {

class Quality : public testing::Test {
 protected:
  void add(int64_t row, const std::string& s, const std::string& t) {
    const std::vector<int32_t> s_ids = ids_of_pieces(*tokenizer_, cut_at_bars(s));
    const std::vector<int32_t> t_ids = ids_of_pieces(*tokenizer_, cut_at_bars(t));
    WalkFindings findings;
    const Alignment pairs = walk_tokens(table_, s_ids, table_, t_ids, {}, &findings);
    quality_.add({row, table_, s_ids, table_, t_ids, pairs, findings});
  }

  std::shared_ptr<const Tokenizer> tokenizer_ =
      piece_tokenizer({"ab", "a", "b", "c", "\n", "abc", "bc", "x"}, {{"<s>", "bos_token"}});
  TokenTable table_{*tokenizer_};
  AlignmentQuality quality_;
};

TEST_F(Quality, CountsTheShapesOfCorrectPairs) {
  add(1, "a|ab|a|b|ab|c", "a|a|b|ab|a|bc");
  const Json json = quality_.json();
  EXPECT_EQ(json.at("coverage").as_double(), 1.0);
  EXPECT_EQ(dump_json(json.at("correct_pairs")),
            R"({"one_to_one":1,"one_to_many":1,"many_to_one":1,"many_to_many":1})");
  EXPECT_EQ(dump_json(json.at("longest_span")), R"({"student":2,"teacher":2})");
  EXPECT_FALSE(quality_.warning("f").has_value());
}

TEST_F(Quality, WarnsOfLostSupervisionWithItsText) {
  add(1, "a", "a");
  add(7, "<s>|a|x|c|\n", "a|b|c");
  EXPECT_EQ(quality_.coverage(), 2.0 / 6);
  EXPECT_EQ(quality_.warning("f.txt").value(),
            "only 33.33 % of 6 student tokens are in correct pairs, wanted at least 98.00 %; the "
            "others get no supervision from the teacher. The longest loss: 3 tokens of f.txt:7, "
            "\"xc\\n\"");
  EXPECT_EQ(quality_.text(),
            "2 documents: 6 student tokens, 4 teacher tokens\n"
            "coverage 0.3333 of the student, 0.5000 of the teacher; 4 student tokens lose "
            "supervision\n"
            "correct pairs, student to teacher tokens: 2\n"
            "  1 to 1                  2   100.00 %\n"
            "  1 to many               0     0.00 %\n"
            "  many to 1               0     0.00 %\n"
            "  many to many            0     0.00 %\n"
            "longest span 1 student tokens, 1 teacher tokens\n"
            "not correct: 1 pair, 3 student orphans, 1 teacher orphans\n"
            "1 document in which the two sides spell different texts\n"
            "lost tokens of row 7: \"xc\\n\"\n"
            "  student  \"x\" \"c\" \"\\n\"\n"
            "  teacher  \"b\" \"c\"\n"
            "lost tokens of row 7: \"<s>\"\n"
            "  student  \"<s>\"\n"
            "  teacher  \n");
  const Json worst = quality_.json().at("worst").as_array()[0];
  EXPECT_EQ(dump_json(worst), R"({"row":7,"lost":true,"tokens":3,"text":"xc\n",)"
                              R"("student":["x","c","\n"],"teacher":["b","c"]})");
}

TEST_F(Quality, KeepsTheFiveWorst) {
  for (int64_t row = 1; row <= 20; ++row) {
    std::string s = "a";
    for (int64_t k = 0; k < row % 10; ++k) s += "|x";
    add(row, s, "a");
  }
  ASSERT_EQ(quality_.worst().size(), 5u);
  EXPECT_EQ(quality_.worst()[0].tokens, 9);
  EXPECT_EQ(quality_.worst()[0].row, 9);
  EXPECT_EQ(quality_.worst()[1].row, 19);
  EXPECT_EQ(quality_.worst()[4].tokens, 7);
}

TEST_F(Quality, WithoutTokensNothingIsLost) {
  EXPECT_EQ(quality_.coverage(), 1.0);
  EXPECT_FALSE(quality_.warning("f").has_value());
}

}  // namespace

}  // namespace xrun::alignment_quality_test
