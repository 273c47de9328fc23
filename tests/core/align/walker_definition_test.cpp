// The byte walker against its definition, written out slowly, on random segmentations.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/align/walker.h"
#include "tests/core/align/piece_tokenizer.h"

namespace xrun::walker_definition_test {

namespace {

std::vector<RoleToken> common_specials() {
  return {{"{s}", "bos_token"}, {"{e}", "eos_token"}, {"{p}", "pad_token"}, {"{x}", ""}};
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

// Returns true if every byte at which both sides end a token ends a pair; of equal texts without
// specials.
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

TEST(WalkerDefinition, SlowIsTheDefinitionOnAMillionRandomSegmentations) {
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
TEST(WalkerDefinition, PairsAreTheFinestPartition) {
  RandomCuts cuts;
  const TokenTable& table = cuts.table();
  for (int round = 0; round < 2000; ++round) {
    const std::string text = cuts.text();
    const std::vector<int32_t> s = cuts.cut(text, 0), t = cuts.cut(text, 0);
    EXPECT_TRUE(is_finest(table, s, t, walk_tokens(table, s, table, t))) << round;
  }
}

}  // namespace

}  // namespace xrun::walker_definition_test
