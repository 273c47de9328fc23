// Three passes over a document: each side's bytes with the position of every token's end, one
// memcmp of the bytes, then a merge of the two lists of ends. With a = b bytes read on both sides:
//   a special token is next: the open group becomes orphans, the runs of specials pair by role
//   otherwise the side that is behind reads its next token; the student first
//   a = b > mark: the group S[s0, i) x T[t0, j) is a pair, and mark = a
// If the side that is behind has no content left, all tokens without a pair are orphans.

#include "core/align/walker.h"

#include <cstring>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr uint32_t kNowhere = UINT32_MAX;
constexpr size_t kMostTokens = size_t{1} << 27;  // 15 bytes each, plus a long one, fit uint32
constexpr uint64_t kMostBytes = uint64_t{1} << 31;

void check_tokens(size_t tokens) {
  XRUN_CHECK(tokens <= kMostTokens, "alignment: a side has {} tokens, at most {} can be aligned",
             tokens, kMostTokens);
}

// Sets the bytes of a side and the end of each token. `strip_prefix_space` leaves out the space
// that the tokenizer puts before a text.
void spell(const TokenTable& table, std::span<const int32_t> ids, bool begins_text,
           bool strip_prefix_space, WalkSide& side) {
  check_tokens(ids.size());
  constexpr size_t kStep = sizeof(TokenTable::ShortToken);
  const size_t count = ids.size();
  const auto beyond = uint32_t(table.size());
  const TokenTable::ShortToken* tokens = table.short_tokens();
  uint32_t* ends = side.ends.get(count);
  // Short tokens are copied whole, bytes beyond their length included.
  char* bytes = side.bytes.get((count + 1) * kStep);
  side.specials.clear();
  side.covering.clear();
  uint32_t at = 0;
  // True if the next content begins a text for the tokenizer.
  bool fresh = begins_text && table.spelling().prefix != PrefixSpace::kNone;
  for (size_t k = 0; k < count; ++k) {
    const TokenTable::ShortToken& token = tokens[std::min(uint32_t(ids[k]), beyond)];
    if (int(token.length > TokenTable::kShort) | int(fresh)) [[unlikely]] {
      if (table.role(ids[k]) != -1) {
        side.specials.push_back(int32_t(k));
        fresh = table.restarts(ids[k]) || (fresh && table.is_leading(ids[k]));
      } else {
        std::string_view text = table.bytes(ids[k]);
        if (fresh && strip_prefix_space && text.starts_with(' ')) text.remove_prefix(1);
        fresh = table.restarts(ids[k]);
        XRUN_CHECK(at + uint64_t{text.size()} <= kMostBytes,
                   "alignment: a side has more than 2 GiB of text; align documents one by one");
        bytes = side.bytes.get(at + text.size() + (count - k) * kStep, at);
        std::copy(text.begin(), text.end(), bytes + at);
        at += uint32_t(text.size());
      }
    } else {
      std::memcpy(bytes + at, &token, kStep);
      at += token.length;
    }
    ends[k] = at;
  }
  side.size = at;
}

// Spells a side; returns false if it does not spell `text`.
bool spells(std::string_view text, const TokenTable& table, std::span<const int32_t> ids,
            bool begins_text, WalkSide& side) {
  spell(table, ids, begins_text, true, side);
  if (std::string_view(side.bytes.data(), side.size) == text) return true;
  if (table.spelling().prefix != PrefixSpace::kIfMissing) return false;
  spell(table, ids, begins_text, false, side);
  return std::string_view(side.bytes.data(), side.size) == text;
}

// Returns the first byte that differs; kNowhere if the text of one side begins with the other's.
uint32_t first_difference(const WalkSide& s, const WalkSide& t) {
  const size_t common = std::min(s.size, t.size);
  if (std::memcmp(s.bytes.data(), t.bytes.data(), common) == 0) return kNowhere;
  const char* begin = s.bytes.data();
  return uint32_t(std::mismatch(begin, begin + common, t.bytes.data()).first - begin);
}

// Sets the end of each token by its offsets. Bytes that a tokenizer dropped belong to the token
// after them. Tokens that share a character end together, with the last of them.
void read_offsets(const TokenTable& table, const Encoding& encoding, WalkSide& side) {
  const size_t count = encoding.ids.size();
  check_tokens(count);
  XRUN_CHECK(encoding.offsets.size() == count, "alignment: {} ids have {} offsets", count,
             encoding.offsets.size());
  uint32_t* ends = side.ends.get(count);
  side.specials.clear();
  side.covering.clear();
  uint32_t next_begin = kNowhere;  // where the tokens after k begin
  for (size_t k = count; k-- > 0;) {
    const ByteRange range = encoding.offsets[k];
    const bool covers = range.begin < range.end;
    const bool ends_here = covers && range.end <= next_begin;
    ends[k] = ends_here ? range.end : 0;
    if (covers) next_begin = std::min(next_begin, range.begin);
  }
  uint32_t at = 0;
  for (size_t k = 0; k < count; ++k) {
    const ByteRange range = encoding.offsets[k];
    if (table.role(encoding.ids[k]) != -1) {
      (range.begin < range.end ? side.covering : side.specials).push_back(int32_t(k));
    }
    at = ends[k] = std::max(at, ends[k]);
  }
  side.size = at;
}

// An id without a role gets a null entry, which pairs with nothing.
SpecialRun special_run(const TokenTable& table, std::span<const int32_t> ids, int32_t begin,
                       int32_t end) {
  SpecialRun run{begin, {}};
  for (int32_t k = begin; k < end; ++k) run.roles.push_back(table.roles(ids[size_t(k)]));
  return run;
}

// Returns the end of the run of special tokens at `at`; `next` passes them.
int32_t run_end(const WalkSide& side, size_t& next, int32_t at) {
  for (; next < side.specials.size() && side.specials[next] == at; ++next) ++at;
  return at;
}

int32_t count_of(int32_t begin, int32_t end) { return end - begin; }

// Returns true if one of `tokens`, which ascend, is in [begin, end).
bool holds(const std::vector<int32_t>& tokens, int32_t begin, int32_t end) {
  const auto first = std::lower_bound(tokens.begin(), tokens.end(), begin);
  return first != tokens.end() && *first < end;
}

}  // namespace

struct Walker::Sides {
  const TokenTable& s;
  std::span<const int32_t> ids_s;
  const TokenTable& t;
  std::span<const int32_t> ids_t;
};

// Spells the text of each side from its tokens.
std::span<const AlignedPair> Walker::walk(const TokenTable& s, std::span<const int32_t> ids_s,
                                          const TokenTable& t, std::span<const int32_t> ids_t) {
  const bool begins = options_.begins_text;
  spell(s, ids_s, begins, true, s_);
  spell(t, ids_t, begins, true, t_);
  uint32_t differs = first_difference(s_, t_);
  // Such a tokenizer gives " a" and "a" the same tokens, so ids do not say which it was. Keeps the
  // reading that agrees longer with the other side.
  const bool s_unclear = s.spelling().prefix == PrefixSpace::kIfMissing;
  const bool t_unclear = t.spelling().prefix == PrefixSpace::kIfMissing;
  if (differs != kNowhere && (s_unclear || t_unclear)) {
    spell(s, ids_s, begins, !s_unclear, s_);
    spell(t, ids_t, begins, !t_unclear, t_);
    const uint32_t other = first_difference(s_, t_);
    if (other < differs) {
      spell(s, ids_s, begins, true, s_);
      spell(t, ids_t, begins, true, t_);
    } else {
      differs = other;
    }
  }
  return pair_up({s, ids_s, t, ids_t}, differs);
}

std::span<const AlignedPair> Walker::walk(std::string_view text, const TokenTable& s,
                                          const Encoding& encoding_s, const TokenTable& t,
                                          const Encoding& encoding_t) {
  const bool spelled = spells(text, s, encoding_s.ids, options_.begins_text, s_) &&
                       spells(text, t, encoding_t.ids, options_.begins_text, t_);
  if (!spelled) return walk(s, encoding_s, t, encoding_t);
  return pair_up({s, encoding_s.ids, t, encoding_t.ids}, kNowhere);
}

std::span<const AlignedPair> Walker::walk(const TokenTable& s, const Encoding& encoding_s,
                                          const TokenTable& t, const Encoding& encoding_t) {
  read_offsets(s, encoding_s, s_);
  read_offsets(t, encoding_t, t_);
  return pair_up({s, encoding_s.ids, t, encoding_t.ids}, kNowhere);
}

std::span<const AlignedPair> Walker::pair_up(const Sides& sides, uint32_t differs) {
  const auto ns = int32_t(sides.ids_s.size()), nt = int32_t(sides.ids_t.size());
  // One entry more, since walk_content() writes the next pair before it knows that there is one.
  pairs_.get(sides.ids_s.size() + sides.ids_t.size() + 1);
  count_ = 0;
  findings_ = {differs == kNowhere ? -1 : int64_t{differs}, 0};
  Position at;
  while (true) {
    const bool s_left = at.next_s < s_.specials.size(), t_left = at.next_t < t_.specials.size();
    const int32_t s_end = s_left ? s_.specials[at.next_s] : ns;
    const int32_t t_end = t_left ? t_.specials[at.next_t] : nt;
    const size_t first = count_;
    walk_content(at, s_end, t_end);
    if (at.mark > differs) {
      drop_after(at, first, differs);
      break;
    }
    const uint32_t a = at.i > 0 ? s_.ends.data()[at.i - 1] : 0;
    const uint32_t b = at.j > 0 ? t_.ends.data()[at.j - 1] : 0;
    const bool special_next = (s_left && at.i == s_end) || (t_left && at.j == t_end);
    // Ends if one side has no more tokens, or if a special token is inside a token of the other.
    if (a != b || !special_next) break;
    walk_specials(at, sides);
  }
  // Adds the remaining tokens, which are in no pair.
  add_orphans(at.s0, ns, at.t0, nt);
  if (!s_.covering.empty() || !t_.covering.empty()) mark_covering(sides);
  if (options_.max_span > 0) limit_spans();
  return {pairs_.data(), count_};
}

// Reads content up to the next special token of a side, or to its end. It has no branches, because
// one token in four ends where none of the other side does, which no predictor foresees.
void Walker::walk_content(Position& at, int32_t s_end, int32_t t_end) {
  const uint32_t *s_ends = s_.ends.data(), *t_ends = t_.ends.data();
  AlignedPair* out = pairs_.data() + count_;
  auto [i, j, s0, t0, mark, next_s, next_t] = at;
  while (i < s_end && j < t_end) {
    const uint32_t a = s_ends[i], b = t_ends[j];
    const bool s_reads = a <= b, t_reads = b <= a;
    // Not at `mark`: two tokens without bytes are not a pair.
    const bool ends_pair = (a == b) & (a > mark);
    *out = {s0, i + 1, t0, j + 1, true};
    out += ends_pair;
    i += s_reads;
    j += t_reads;
    s0 = ends_pair ? i : s0;
    t0 = ends_pair ? j : t0;
    mark = ends_pair ? a : mark;
  }
  count_ = size_t(out - pairs_.data());
  at = {i, j, s0, t0, mark, next_s, next_t};
}

void Walker::walk_specials(Position& at, const Sides& sides) {
  add_orphans(at.s0, at.i, at.t0, at.j);  // tokens without bytes
  const int32_t s_end = run_end(s_, at.next_s, at.i), t_end = run_end(t_, at.next_t, at.j);
  if (options_.pair_specials) {
    special_pairs_.clear();
    pair_specials(special_run(sides.s, sides.ids_s, at.i, s_end),
                  special_run(sides.t, sides.ids_t, at.j, t_end), special_pairs_);
    std::copy(special_pairs_.begin(), special_pairs_.end(), pairs_.data() + count_);
    count_ += special_pairs_.size();
  } else {
    add_orphans(at.i, s_end, at.j, t_end);
  }
  at.i = at.s0 = s_end;
  at.j = at.t0 = t_end;
}

// Keeps the pair that holds the first differing byte, as a wrong one, and drops the pairs after it.
// `first` is the first pair of the last stretch of content.
void Walker::drop_after(Position& at, size_t first, uint32_t differs) {
  const uint32_t* ends = s_.ends.data();
  while (count_ > first + 1 && ends[pairs_.data()[count_ - 2].s_end - 1] > differs) --count_;
  AlignedPair& last = pairs_.data()[count_ - 1];
  last.correct = false;
  at.s0 = last.s_end;
  at.t0 = last.t_end;
}

void Walker::add_orphans(int32_t s_begin, int32_t s_end, int32_t t_begin, int32_t t_end) {
  AlignedPair* out = pairs_.data();
  for (int32_t i = s_begin; i < s_end; ++i) out[count_++] = {i, i + 1, -1, -1, false};
  for (int32_t j = t_begin; j < t_end; ++j) out[count_++] = {-1, -1, j, j + 1, false};
}

// A token that covers text without spelling it pairs correctly only with one of the same role.
void Walker::mark_covering(const Sides& sides) {
  for (size_t k = 0; k < count_; ++k) {
    AlignedPair& pair = pairs_.data()[k];
    if (!pair.correct) continue;
    const bool in_s = holds(s_.covering, pair.s_begin, pair.s_end);
    const bool in_t = holds(t_.covering, pair.t_begin, pair.t_end);
    if (!in_s && !in_t) continue;
    const SpecialRoles* s = sides.s.roles(sides.ids_s[size_t(pair.s_begin)]);
    const SpecialRoles* t = sides.t.roles(sides.ids_t[size_t(pair.t_begin)]);
    pair.correct = s != nullptr && t != nullptr && in_s && in_t &&
                   count_of(pair.s_begin, pair.s_end) == 1 &&
                   count_of(pair.t_begin, pair.t_end) == 1 && share_role(*s, *t);
  }
}

// A pair of many tokens says little about each of them, so one that is too long counts as wrong.
void Walker::limit_spans() {
  for (size_t k = 0; k < count_; ++k) {
    AlignedPair& pair = pairs_.data()[k];
    const int32_t span =
        std::max(count_of(pair.s_begin, pair.s_end), count_of(pair.t_begin, pair.t_end));
    if (!pair.correct || span <= options_.max_span) continue;
    pair.correct = false;
    ++findings_.long_pairs;
  }
}

Alignment walk_tokens(const TokenTable& s, std::span<const int32_t> ids_s, const TokenTable& t,
                      std::span<const int32_t> ids_t, const WalkOptions& options,
                      WalkFindings* findings) {
  Walker walker(options);
  const auto pairs = walker.walk(s, ids_s, t, ids_t);
  if (findings != nullptr) *findings = walker.findings();
  return {pairs.begin(), pairs.end()};
}

Alignment walk_tokens(std::string_view text, const EncodedSide& s, const EncodedSide& t,
                      const WalkOptions& options, WalkFindings* findings) {
  Walker walker(options);
  const auto pairs = walker.walk(text, s.table, s.encoding, t.table, t.encoding);
  if (findings != nullptr) *findings = walker.findings();
  return {pairs.begin(), pairs.end()};
}

Alignment identity_alignment(int64_t tokens) {
  Alignment pairs;
  pairs.reserve(size_t(tokens));
  for (int32_t k = 0; k < tokens; ++k) pairs.push_back({k, k + 1, k, k + 1, true});
  return pairs;
}

}  // namespace xrun
