// The byte walker on the vectors of the reference systems and at the edges of its contract.

#include "core/align/walker.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/align/piece_tokenizer.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::walker_test {

namespace {

// Two vocabularies of the same pieces, whose bos and eos are spelled differently.
class Walk : public testing::Test {
 protected:
  static std::vector<std::string> pieces() {
    return {
        "Hello", " world",   "!",     "201",    "2",        "0",
        "1",     "1234",     "3",     "4",      "12345",    "5",
        "ab",    "c",        "a",     "b",      "d",        "bc",
        "bcd",   "X",        "Y",     "Z",      "P",        "Q",
        "R",     "Hi",       "there", " there", "cat",      "dog",
        "x",     "\xE4\xBD", "\xA0",  "\xE4",   "\xBD\xA0", "a piece of more than fifteen bytes"};
  }
  // Sides are written as pieces between bars.
  Alignment walk(const std::string& s, const std::string& t, const WalkOptions& options = {}) {
    return walk_tokens(s_, ids(*student_, s), t_, ids(*teacher_, t), options, &findings_);
  }
  std::vector<int32_t> ids(const Tokenizer& tokenizer, const std::string& bars) {
    return ids_of_pieces(tokenizer, cut_at_bars(bars));
  }

  std::shared_ptr<const Tokenizer> student_ = piece_tokenizer(
      pieces(), {{"{s}", "bos_token"}, {"{e}", "eos_token"}, {"{p}", "pad_token"}, {"{x}", ""}});
  std::shared_ptr<const Tokenizer> teacher_ = piece_tokenizer(
      pieces(), {{"<s>", "bos_token"}, {"<e>", "eos_token"}, {"{x}", ""}, {"{y}", ""}});
  TokenTable s_{*student_}, t_{*teacher_};
  WalkFindings findings_;
};

// The vectors of NeMo-RL's aligner on which both aligners agree.
TEST_F(Walk, GivesThePairsOfTheReferenceVectors) {
  const Alignment three = {{0, 1, 0, 1, true}, {1, 2, 1, 2, true}, {2, 3, 2, 3, true}};
  EXPECT_EQ(walk("Hello| world|!", "Hello| world|!"), three);
  EXPECT_EQ(walk("201", "2|0|1"), (Alignment{{0, 1, 0, 3, true}}));
  EXPECT_EQ(walk("1234", "1|2|3|4"), (Alignment{{0, 1, 0, 4, true}}));
  EXPECT_EQ(walk("12345", "1|2|3|4|5"), (Alignment{{0, 1, 0, 5, true}}));
  EXPECT_EQ(walk("ab|c", "a|bc"), (Alignment{{0, 2, 0, 2, true}}));
  Alignment inside = three;
  inside.insert(inside.end(),
                {{3, 5, 3, 5, true}, {5, 6, 5, 6, true}, {6, 7, 6, 7, true}, {7, 8, 7, 8, true}});
  EXPECT_EQ(walk("X|Y|Z|ab|c|P|Q|R", "X|Y|Z|a|bc|P|Q|R"), inside);
  inside[3] = {3, 6, 3, 5, true};
  for (size_t k = 4; k < inside.size(); ++k) ++inside[k].s_begin, ++inside[k].s_end;
  EXPECT_EQ(walk("X|Y|Z|ab|c|d|P|Q|R", "X|Y|Z|a|bcd|P|Q|R"), inside);
  EXPECT_EQ(walk("{s}|Hi| there", "Hi| there"),
            (Alignment{{0, 1, -1, -1, false}, {1, 2, 0, 1, true}, {2, 3, 1, 2, true}}));
  EXPECT_EQ(walk("{s}|Hi| there", "<s>|Hi| there"), three);
  EXPECT_EQ(walk("cat", "dog"), (Alignment{{0, 1, 0, 1, false}}));
  EXPECT_EQ(findings_.differs_at, 0);
}

TEST_F(Walk, StopsAtTheFirstDifferingByte) {
  // The group that holds it ends on both sides; everything after it is an orphan, eos too.
  EXPECT_EQ(walk("a|b|c|{e}", "a|d|c|<e>"), (Alignment{{0, 1, 0, 1, true},
                                                       {1, 2, 1, 2, false},
                                                       {2, 3, -1, -1, false},
                                                       {3, 4, -1, -1, false},
                                                       {-1, -1, 2, 3, false},
                                                       {-1, -1, 3, 4, false}}));
  EXPECT_EQ(findings_.differs_at, 1);
  // It ends only with the texts.
  EXPECT_EQ(walk("a|ab|c", "a|a|dog|c"), (Alignment{{0, 1, 0, 1, true},
                                                    {1, 2, -1, -1, false},
                                                    {2, 3, -1, -1, false},
                                                    {-1, -1, 1, 2, false},
                                                    {-1, -1, 2, 3, false},
                                                    {-1, -1, 3, 4, false}}));
  EXPECT_EQ(findings_.differs_at, 2);
}

TEST_F(Walk, ATextThatEndsFirstLeavesOrphans) {
  EXPECT_EQ(walk("a|b", "a"), (Alignment{{0, 1, 0, 1, true}, {1, 2, -1, -1, false}}));
  EXPECT_EQ(findings_.differs_at, -1);
  EXPECT_EQ(walk("", "a|b"), (Alignment{{-1, -1, 0, 1, false}, {-1, -1, 1, 2, false}}));
  EXPECT_EQ(walk("", ""), Alignment{});
}

TEST_F(Walk, SpecialTokensPairByRoleOrSpelling) {
  EXPECT_EQ(walk("a|{e}", "a|<e>"), (Alignment{{0, 1, 0, 1, true}, {1, 2, 1, 2, true}}));
  EXPECT_EQ(walk("{x}|a", "{x}|a"), (Alignment{{0, 1, 0, 1, true}, {1, 2, 1, 2, true}}));
  EXPECT_EQ(walk("{x}|a", "{y}|a"),
            (Alignment{{0, 1, -1, -1, false}, {-1, -1, 0, 1, false}, {1, 2, 1, 2, true}}));
  WalkOptions options;
  options.pair_specials = false;
  EXPECT_EQ(walk("a|{e}", "a|<e>", options),
            (Alignment{{0, 1, 0, 1, true}, {1, 2, -1, -1, false}, {-1, -1, 1, 2, false}}));
}

TEST_F(Walk, ASpecialTokenInsideATokenOfTheOtherSideEndsTheWalk) {
  EXPECT_EQ(walk("a|{x}|b", "ab"), (Alignment{{0, 1, -1, -1, false},
                                              {1, 2, -1, -1, false},
                                              {2, 3, -1, -1, false},
                                              {-1, -1, 0, 1, false}}));
}

TEST_F(Walk, IdsBeyondTheVocabularyAreOrphans) {
  const std::vector<int32_t> s = {14, 1 << 30, 15}, t = {14, 15};
  EXPECT_EQ(walk_tokens(s_, s, t_, t),
            (Alignment{{0, 1, 0, 1, true}, {1, 2, -1, -1, false}, {2, 3, 1, 2, true}}));
}

TEST_F(Walk, LongerSpansThanTheLimitAreNotCorrect) {
  WalkOptions options;
  options.max_span = 3;
  EXPECT_EQ(walk("201|1234", "2|0|1|1|2|3|4", options),
            (Alignment{{0, 1, 0, 3, true}, {1, 2, 3, 7, false}}));
  EXPECT_EQ(findings_.long_pairs, 1);
}

TEST_F(Walk, TokensMayBePartsOfCharacters) {
  EXPECT_EQ(walk("\xE4\xBD|\xA0|a piece of more than fifteen bytes",
                 "\xE4|\xBD\xA0|a piece of more than fifteen bytes"),
            (Alignment{{0, 2, 0, 2, true}, {2, 3, 2, 3, true}}));
}

TEST_F(Walk, EncodingsAlignByTheirOffsets) {
  // The teacher drops the space, and reads one character as two tokens.
  const Encoding s{{14, 15, 16}, {{0, 1}, {1, 5}, {5, 6}}, 0};
  const Encoding t{{14, 15, 16, 16}, {{0, 1}, {2, 5}, {2, 5}, {5, 6}}, 0};
  EXPECT_EQ(walk_tokens("a ????c", {s_, s}, {t_, t}),
            (Alignment{{0, 1, 0, 1, true}, {1, 2, 1, 3, true}, {2, 3, 3, 4, true}}));
  const Encoding broken{{14, 15}, {{0, 1}}, 0};
  EXPECT_EQ(error_of([&] {
              walk_tokens("?", {s_, broken}, {t_, t});
            }),
            "alignment: 2 ids have 1 offsets");
}

// An unknown token covers text that it does not spell.
TEST_F(Walk, APairWithAnUnknownTokenIsNotCorrect) {
  const int32_t special = student_->id_of("{x}").value();
  const Encoding s{{14, special}, {{0, 1}, {1, 4}}, 0};
  const Encoding t{{14, 15}, {{0, 1}, {1, 4}}, 0};
  EXPECT_EQ(walk_tokens("a???", {s_, s}, {t_, t}),
            (Alignment{{0, 1, 0, 1, true}, {1, 2, 1, 2, false}}));
}

// Llama-2 puts a space before a text, and again after each special token.
class PrefixedWalk : public testing::Test {
 protected:
  static std::shared_ptr<const Tokenizer> load(const std::string& name) {
    return Tokenizer::load(source_path("tests/data/" + name));
  }
  std::vector<int32_t> llama_ids(const std::string& bars) const {
    std::vector<int32_t> ids;
    for (const std::string& piece : cut_at_bars(bars)) ids.push_back(llama_->id_of(piece).value());
    return ids;
  }
  std::shared_ptr<const Tokenizer> llama_ = load("tokenizers/llama2"),
                                   bytes_ = load("tiny_tokenizer");
  TokenTable llama_table_{*llama_}, bytes_table_{*bytes_};
};

TEST_F(PrefixedWalk, ATokenWithoutBytesJoinsThePairThatFollows) {
  const std::vector<int32_t> s = llama_ids("▁|a|▁|b"), t = {'a', ' ', 'b'};
  EXPECT_EQ(walk_tokens(llama_table_, s, bytes_table_, t),
            (Alignment{{0, 2, 0, 1, true}, {2, 3, 1, 2, true}, {3, 4, 2, 3, true}}));
  EXPECT_EQ(walk_tokens(llama_table_, s, llama_table_, s),
            (Alignment{{0, 2, 0, 2, true}, {2, 3, 2, 3, true}, {3, 4, 3, 4, true}}));
  const std::vector<int32_t> alone = llama_ids("▁");
  EXPECT_EQ(walk_tokens(llama_table_, alone, bytes_table_, {}), (Alignment{{0, 1, -1, -1, false}}));
}

TEST_F(PrefixedWalk, TheSpaceBeforeATextIsNotPartOfIt) {
  const std::vector<int32_t> s = llama_ids("<s>|▁|a|</s>|▁|b"), t = {'a', 256, 'b'};
  // This folder does not say that </s> is its eos.
  EXPECT_EQ(walk_tokens(llama_table_, s, bytes_table_, t), (Alignment{{0, 1, -1, -1, false},
                                                                      {1, 3, 0, 1, true},
                                                                      {3, 4, -1, -1, false},
                                                                      {-1, -1, 1, 2, false},
                                                                      {4, 6, 2, 3, true}}));
  // Ids that follow others: the space is one.
  WalkOptions inner;
  inner.begins_text = false;
  const std::vector<int32_t> rest = llama_ids("▁|b"), spaced = {' ', 'b'};
  EXPECT_EQ(walk_tokens(llama_table_, rest, bytes_table_, spaced, inner), identity_alignment(2));
}

}  // namespace

}  // namespace xrun::walker_test
