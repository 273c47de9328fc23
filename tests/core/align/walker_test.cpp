// The byte walker against its definition, and on the vectors of the reference systems.

#include "core/align/walker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/base/error.h"
#include "tests/core/align/piece_tokenizer.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::walker_test {

namespace {

std::vector<RoleToken> common_specials() {
  return {{"{s}", "bos_token"}, {"{e}", "eos_token"}, {"{p}", "pad_token"}, {"{x}", ""}};
}

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
  EXPECT_EQ(walk_tokens("a ????c", s_, s, t_, t),
            (Alignment{{0, 1, 0, 1, true}, {1, 2, 1, 3, true}, {2, 3, 3, 4, true}}));
  const Encoding broken{{14, 15}, {{0, 1}}, 0};
  EXPECT_EQ(error_of([&] { walk_tokens("?", s_, broken, t_, t); }),
            "alignment: 2 ids have 1 offsets");
}

// An unknown token covers text that it does not spell.
TEST_F(Walk, APairWithAnUnknownTokenIsNotCorrect) {
  const int32_t special = student_->id_of("{x}").value();
  const Encoding s{{14, special}, {{0, 1}, {1, 4}}, 0};
  const Encoding t{{14, 15}, {{0, 1}, {1, 4}}, 0};
  EXPECT_EQ(walk_tokens("a???", s_, s, t_, t),
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

// ---- the definition, step by step

struct PlainSide {
  const TokenTable& table;
  const std::vector<int32_t>& ids;
  bool special(size_t k) const { return k < ids.size() && table.role(ids[k]) != -1; }
  bool content(size_t k) const { return k < ids.size() && table.role(ids[k]) == -1; }
  std::string text(size_t begin, size_t end) const {
    std::string out;
    for (size_t k = begin; k < end; ++k) out += table.bytes(ids[k]);
    return out;
  }
  SpecialRun run(size_t& k) const {
    SpecialRun run{int32_t(k), {}};
    for (; special(k); ++k) run.roles.push_back(table.roles(ids[k]));
    return run;
  }
};

Alignment plain_walk(const PlainSide& s, const PlainSide& t) {
  Alignment out;
  size_t i = 0, j = 0, s0 = 0, t0 = 0, a = 0, b = 0, mark = 0;
  const auto orphans = [&](size_t s_end, size_t t_end) {
    for (; s0 < s_end; ++s0) out.push_back({int32_t(s0), int32_t(s0) + 1, -1, -1, false});
    for (; t0 < t_end; ++t0) out.push_back({-1, -1, int32_t(t0), int32_t(t0) + 1, false});
  };
  while (i < s.ids.size() || j < t.ids.size()) {
    if (a == b && (s.special(i) || t.special(j))) {
      orphans(i, j);
      const SpecialRun s_run = s.run(i), t_run = t.run(j);
      pair_specials(s_run, t_run, out);
      s0 = i, t0 = j, mark = a;
      continue;
    }
    if (a <= b && s.content(i)) {
      a += s.table.bytes(s.ids[i++]).size();
    } else if (b <= a && t.content(j)) {
      b += t.table.bytes(t.ids[j++]).size();
    } else {
      break;
    }
    if (a == b && a > mark && i > s0 && j > t0) {
      const bool correct = s.text(s0, i) == t.text(t0, j);
      out.push_back({int32_t(s0), int32_t(i), int32_t(t0), int32_t(j), correct});
      s0 = i, t0 = j, mark = a;
      if (!correct) break;
    }
  }
  orphans(s.ids.size(), t.ids.size());
  return out;
}

std::multiset<std::vector<int32_t>> as_set(const Alignment& pairs) {
  std::multiset<std::vector<int32_t>> out;
  for (const AlignedPair& p : pairs) {
    out.insert({p.s_begin, p.s_end, p.t_begin, p.t_end, int32_t(p.correct)});
  }
  return out;
}

// All pieces of one to three of these bytes, and one of twenty.
class RandomCuts {
 public:
  RandomCuts() {
    const std::string bytes = "ab\xE4\xBD";
    std::vector<std::string> last = {""};
    for (int length = 1; length <= 3; ++length) {
      std::vector<std::string> longer;
      for (const std::string& piece : last) {
        for (const char byte : bytes) longer.push_back(piece + byte);
      }
      pieces_.insert(pieces_.end(), longer.begin(), longer.end());
      last = std::move(longer);
    }
    pieces_.push_back(std::string(20, 'a'));
    tokenizer_ = piece_tokenizer(pieces_, common_specials());
    table_ = std::make_unique<TokenTable>(*tokenizer_);
    for (int32_t id = 0; id < int32_t(pieces_.size()); ++id) {
      by_text_.emplace(pieces_[size_t(id)], id);
    }
  }

  std::string text() {
    std::string out;
    for (int n = number(20); n > 0; --n) out += "ab\xE4\xBD"[number(4)];
    if (number(8) == 0) out += std::string(size_t(number(45)), 'a');
    return out;
  }
  // Cuts a text at random and puts special tokens at random places.
  std::vector<int32_t> cut(const std::string& text, int specials) {
    std::vector<int32_t> ids;
    for (size_t at = 0; at < text.size();) {
      if (specials > 0 && number(specials) == 0) ids.push_back(int32_t(pieces_.size()) + number(4));
      const bool is_long = number(3) == 0 && text.compare(at, 20, pieces_.back()) == 0;
      const size_t size = is_long ? 20 : std::min<size_t>(size_t(1 + number(3)), text.size() - at);
      ids.push_back(by_text_.at(text.substr(at, size)));
      at += size;
    }
    if (number(4) == 0) ids.push_back(int32_t(pieces_.size()) + 1);
    return ids;
  }
  int number(int below) { return int(random_() % uint32_t(below)); }
  const TokenTable& table() const { return *table_; }

 private:
  std::mt19937 random_{17};
  std::vector<std::string> pieces_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const TokenTable> table_;
  std::map<std::string, int32_t> by_text_;
};

// True if every byte at which both sides end a token ends a pair; of equal texts without specials.
bool is_finest(const TokenTable& table, const std::vector<int32_t>& s,
               const std::vector<int32_t>& t, const Alignment& pairs) {
  const auto ends_of = [&](const std::vector<int32_t>& ids) {
    std::vector<size_t> ends;
    size_t at = 0;
    for (const int32_t id : ids) {
      if (table.role(id) == -1) ends.push_back(at += table.bytes(id).size());
    }
    return ends;
  };
  const std::vector<size_t> s_ends = ends_of(s), t_ends = ends_of(t);
  std::vector<size_t> common;
  std::set_intersection(s_ends.begin(), s_ends.end(), t_ends.begin(), t_ends.end(),
                        std::back_inserter(common));
  int64_t content_pairs = 0;
  for (const AlignedPair& pair : pairs) {
    if (pair.s_begin < 0 || pair.t_begin < 0) continue;
    if (!pair.correct) return false;
    content_pairs += table.role(s[size_t(pair.s_begin)]) == -1;
  }
  return content_pairs == std::ssize(common);
}

TEST(Walker, SlowIsTheDefinitionOnAMillionRandomSegmentations) {
  RandomCuts cuts;
  Walker walker;
  const TokenTable& table = cuts.table();
  for (int round = 0; round < 500'000; ++round) {
    const std::string text = cuts.text();
    // One text in four differs somewhere, one in four has special tokens inside.
    std::string other = text;
    if (round % 4 == 1 && !other.empty()) other[size_t(cuts.number(int(other.size())))] = 'b';
    const int specials = round % 4 == 2 ? 8 : 0;
    const std::vector<int32_t> s = cuts.cut(text, specials), t = cuts.cut(other, specials);
    const auto pairs = walker.walk(table, s, table, t);
    const Alignment got(pairs.begin(), pairs.end());
    const Alignment wanted = plain_walk({table, s}, {table, t});
    if (got != wanted) {
      FAIL() << "round " << round << ": " << testing::PrintToString(s) << " "
             << testing::PrintToString(t);
    }
    check_alignment(got, int64_t(s.size()), int64_t(t.size()));
    const auto back = walker.walk(table, t, table, s);
    ASSERT_EQ(as_set(exchanged({back.begin(), back.end()})), as_set(got)) << round;
    if (round % 4 == 0 || round % 4 == 3) {
      ASSERT_TRUE(is_finest(table, s, t, got)) << round;
    }
  }
}

// Every byte at which both sides end a token ends a pair.
TEST(Walker, PairsAreTheFinestPartition) {
  RandomCuts cuts;
  const TokenTable& table = cuts.table();
  for (int round = 0; round < 2000; ++round) {
    const std::string text = cuts.text();
    const std::vector<int32_t> s = cuts.cut(text, 0), t = cuts.cut(text, 0);
    EXPECT_TRUE(is_finest(table, s, t, walk_tokens(table, s, table, t))) << round;
  }
}

}  // namespace

}  // namespace xrun::walker_test
