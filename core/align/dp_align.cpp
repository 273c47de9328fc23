// Canonical tokens, anchors, a dynamic programme between them, repairs, and back to the pieces.
// An anchor is three tokens in a row that occur once on each side. Anchors are taken from left to
// right on the student's side unless they overlap one already taken; then those whose teacher
// tokens come before the last one's are dropped. So one early anchor far right on the teacher's
// side removes all that follow it: the reference does this too.

#include "core/align/dp_align.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/align/dp_canonical.h"
#include "core/align/dp_repair.h"
#include "core/align/dp_segment.h"

namespace xrun {
namespace {

constexpr int32_t kAnchor = 3;  // tokens of an anchor

struct DpAnchor {
  int32_t s, t;  // its first tokens
};

// Returns the bytes of the three ids from token n on, a key of the trigram.
std::string_view trigram(const CanonicalTokens& tokens, int32_t n) {
  return {reinterpret_cast<const char*>(tokens.id.data() + n), kAnchor * sizeof(int32_t)};
}

std::vector<DpAnchor> find_anchors(const CanonicalTokens& s, const CanonicalTokens& t) {
  const int32_t s_last = s.size() - kAnchor, t_last = t.size() - kAnchor;
  if (s_last < 0 || t_last < 0) return {};
  StringIds trigrams(static_cast<size_t>(s_last) + 1);
  std::vector<int32_t> number;  // [s_last + 1] of the trigram that begins here
  for (int32_t n = 0; n <= s_last; ++n) number.push_back(trigrams.add(trigram(s, n)));
  // Counts of each on both sides, and its position on the teacher's.
  const auto count = static_cast<size_t>(trigrams.size());
  std::vector<int32_t> in_s(count, 0), in_t(count, 0), t_at(count, -1);
  for (const int32_t id : number) ++in_s[static_cast<size_t>(id)];
  for (int32_t n = 0; n <= t_last; ++n) {
    const int32_t id = trigrams.find(trigram(t, n));
    if (id < 0) continue;
    ++in_t[static_cast<size_t>(id)];
    t_at[static_cast<size_t>(id)] = n;
  }

  // Teacher tokens that some anchor already uses.
  std::vector<bool> taken(static_cast<size_t>(t.size()), false);
  std::vector<DpAnchor> anchors;
  int32_t s_free = 0, t_free = 0;  // after the anchors taken, and after those kept
  for (int32_t n = 0; n <= s_last; ++n) {
    const auto id = static_cast<size_t>(number[static_cast<size_t>(n)]);
    // Ambiguous trigrams are no anchors: their partner would be a guess.
    if (n < s_free || in_s[id] != 1 || in_t[id] != 1) continue;
    const auto begin = taken.begin() + t_at[id];
    if (std::find(begin, begin + kAnchor, true) != begin + kAnchor) continue;
    std::fill(begin, begin + kAnchor, true);
    // Even an anchor that is dropped below uses up its student tokens, as in the reference.
    s_free = n + kAnchor;
    if (t_at[id] < t_free) continue;
    t_free = t_at[id] + kAnchor;
    anchors.push_back({n, t_at[id]});
  }
  return anchors;
}

std::vector<DpSpan> align_between_anchors(const CanonicalTokens& s, const CanonicalTokens& t,
                                          DpSegments& segments) {
  std::vector<DpSpan> pairs;
  int32_t s_done = 0, t_done = 0;
  for (const DpAnchor& anchor : find_anchors(s, t)) {
    segments.align({s_done, anchor.s, t_done, anchor.t}, pairs);
    // The tokens of an anchor pair one to one.
    for (int32_t k = 0; k < kAnchor; ++k) {
      pairs.push_back({anchor.s + k, anchor.s + k + 1, anchor.t + k, anchor.t + k + 1});
    }
    s_done = anchor.s + kAnchor;
    t_done = anchor.t + kAnchor;
  }
  segments.align({s_done, s.size(), t_done, t.size()}, pairs);
  return pairs;
}

}  // namespace

Alignment dp_align(std::span<const std::string_view> pieces_s,
                   std::span<const std::string_view> pieces_t, const DpOptions& options) {
  // One CanonicalStrings for both sides, so that equal texts have equal ids.
  CanonicalStrings strings;
  const CanonicalTokens s = strings.tokens(pieces_s), t = strings.tokens(pieces_t);
  DpSegments segments(s, t, strings.ids(), options);
  const std::vector<DpSpan> pairs = repaired(align_between_anchors(s, t, segments), s, t, segments);

  Alignment out;
  out.reserve(pairs.size());
  const auto piece = [](const CanonicalTokens& tokens, int32_t n) {
    return tokens.begin[static_cast<size_t>(n)];
  };
  for (const DpSpan& pair : pairs) {
    AlignedPair& aligned = out.emplace_back();
    if (pair.students() > 0) {
      aligned.s_begin = piece(s, pair.s_begin);
      aligned.s_end = piece(s, pair.s_end);
    }
    if (pair.teachers() > 0) {
      aligned.t_begin = piece(t, pair.t_begin);
      aligned.t_end = piece(t, pair.t_end);
    }
    aligned.correct = same_text(pair, s, t);
  }
  return out;
}

}  // namespace xrun
