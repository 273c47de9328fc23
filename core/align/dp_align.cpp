// The steps: canonical tokens, anchors, a dynamic programme between them, repairs, and back to the
// pieces. An anchor is three tokens in a row that occur once on each side. Anchors are taken from
// left to right on the student's side unless they overlap one already taken. One whose teacher
// tokens come before those of the last anchor kept is dropped, so an early anchor far right on the
// teacher's side removes all that follow it. The reference does the same.

#include "core/align/dp_align.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "core/align/dp_canonical.h"
#include "core/align/dp_repair.h"
#include "core/align/dp_table.h"
#include "core/text/tokenizer/piece_hash.h"

namespace xrun {
namespace {

constexpr int32_t kAnchor = 3;  // tokens of an anchor

struct DpAnchor {
  int32_t s, t;  // its first tokens
};

// The trigrams of the student's tokens, each with its first token on both sides.
class Trigrams {
 public:
  Trigrams(const CanonicalTokens& s, const CanonicalTokens& t)
      : s_(s),
        slots_(std::bit_ceil(2 * static_cast<size_t>(s.size()))),
        teacher_(static_cast<size_t>(s.size()), -1) {
    for (int32_t n = 0; n + kAnchor <= s.size(); ++n) {
      TrigramSlot& slot = slot_of(s, n);
      slot.t = slot.s < 0 ? -1 : kSeveral;
      if (slot.s < 0) slot.s = n;
    }
    for (int32_t n = 0; n + kAnchor <= t.size(); ++n) {
      TrigramSlot& slot = slot_of(t, n);
      if (slot.s < 0 || slot.t == kSeveral) continue;
      slot.t = slot.t < 0 ? n : kSeveral;
      teacher_[static_cast<size_t>(slot.s)] = slot.t;
    }
  }
  // Returns the teacher's token at which the trigram of student token n begins, negative unless it
  // occurs once on each side.
  int32_t unique(int32_t n) const { return teacher_[static_cast<size_t>(n)]; }

 private:
  static constexpr int32_t kSeveral = -2;  // it occurs several times on one side
  // The first token of each side. Only two numbers, so that the table of 2,048 tokens fits into the
  // L1 cache.
  struct TrigramSlot {
    int32_t s = -1, t = -1;
  };

  TrigramSlot& slot_of(const CanonicalTokens& tokens, int32_t n) {
    const int32_t* const id = tokens.id.data() + n;
    const auto wide = [](int32_t value) { return static_cast<uint64_t>(value); };
    const size_t mask = slots_.size() - 1;
    // The constants keep an id of 0 from hiding the others.
    size_t slot = fold_product((wide(id[0]) << 32 | wide(id[1])) ^ 0x9E3779B97F4A7C15,
                               wide(id[2]) ^ 0xE7037ED1A0B428DB) &
                  mask;
    const auto differs = [&](int32_t s) {
      const int32_t* const known = s_.id.data() + s;
      return known[0] != id[0] || known[1] != id[1] || known[2] != id[2];
    };
    while (slots_[slot].s >= 0 && differs(slots_[slot].s)) slot = (slot + 1) & mask;
    return slots_[slot];
  }

  const CanonicalTokens& s_;
  std::vector<TrigramSlot> slots_;  // open addressing, at most half full
  std::vector<int32_t> teacher_;    // by student token
};

std::vector<DpAnchor> find_anchors(const CanonicalTokens& s, const CanonicalTokens& t) {
  const int32_t s_last = s.size() - kAnchor, t_last = t.size() - kAnchor;
  if (s_last < 0 || t_last < 0) return {};
  const Trigrams trigrams(s, t);

  // Teacher tokens that some anchor already uses.
  std::vector<uint8_t> taken(static_cast<size_t>(t.size()), 0);
  std::vector<DpAnchor> anchors;
  int32_t s_free = 0, t_free = 0;  // after the last anchor taken, and after the last one kept
  for (int32_t n = 0; n <= s_last; ++n) {
    if (n < s_free) continue;
    const int32_t t_at = trigrams.unique(n);
    if (t_at < 0) continue;
    const auto begin = taken.begin() + t_at;
    if (std::find(begin, begin + kAnchor, 1) != begin + kAnchor) continue;
    std::fill(begin, begin + kAnchor, uint8_t{1});
    s_free = n + kAnchor;
    if (t_at < t_free) continue;
    t_free = t_at + kAnchor;
    anchors.push_back({n, t_at});
  }
  return anchors;
}

std::vector<DpSpan> align_between_anchors(const CanonicalTokens& s, const CanonicalTokens& t,
                                          DpTable& table) {
  std::vector<DpSpan> pairs;
  int32_t s_done = 0, t_done = 0;
  for (const DpAnchor& anchor : find_anchors(s, t)) {
    table.align({s_done, anchor.s, t_done, anchor.t}, pairs);
    // The tokens of an anchor pair one to one.
    for (int32_t k = 0; k < kAnchor; ++k) {
      pairs.push_back({anchor.s + k, anchor.s + k + 1, anchor.t + k, anchor.t + k + 1});
    }
    s_done = anchor.s + kAnchor;
    t_done = anchor.t + kAnchor;
  }
  table.align({s_done, s.size(), t_done, t.size()}, pairs);
  return pairs;
}

}  // namespace

DpAligner::DpAligner(const DpOptions& options)
    : options_(options), strings_(std::make_unique<CanonicalStrings>()) {}

DpAligner::~DpAligner() = default;

Alignment DpAligner::align(std::span<const std::string_view> pieces_s,
                           std::span<const std::string_view> pieces_t) {
  const CanonicalTokens s = strings_->tokens(pieces_s), t = strings_->tokens(pieces_t);
  DpTable table(s, t, strings_->ids(), options_);
  const std::vector<JudgedSpan> pairs = repaired(align_between_anchors(s, t, table), s, t, table);

  Alignment out;
  out.reserve(pairs.size());
  const auto piece = [](const CanonicalTokens& tokens, int32_t n) {
    return tokens.begin[static_cast<size_t>(n)];
  };
  for (const auto& [pair, correct] : pairs) {
    AlignedPair& aligned = out.emplace_back();
    if (pair.students() > 0) {
      aligned.s_begin = piece(s, pair.s_begin);
      aligned.s_end = piece(s, pair.s_end);
    }
    if (pair.teachers() > 0) {
      aligned.t_begin = piece(t, pair.t_begin);
      aligned.t_end = piece(t, pair.t_end);
    }
    aligned.correct = correct;
  }
  return out;
}

}  // namespace xrun
