// Two passes over the pairs, each of which is judged once, since most are correct:
// 1. Each run of two or more wrong pairs in the first 80 % of the list becomes one pair.
// 2. From each remaining wrong pair on, windows of 2 to 10 pairs are tried, shortest first. The
//    first window whose texts agree is aligned again without anchors. If all new pairs are correct
//    they replace the window; else the window becomes one pair.
// The reference also splits a fused pair with the same tokens on both sides. There is none, since
// the programme pairs equal tokens one to one, which scores more than anything else.

#include "core/align/dp_repair.h"

#include <algorithm>

namespace xrun {
namespace {

constexpr double kEndMismatch = 0.2;  // share at the end that pass 1 does not change
constexpr size_t kLongestWindow = 10;

bool same_text(const DpSpan& span, const CanonicalTokens& s, const CanonicalTokens& t) {
  // The common case: equal tokens have equal texts.
  if (span.students() == 1 && span.teachers() == 1 &&
      s.id[static_cast<size_t>(span.s_begin)] == t.id[static_cast<size_t>(span.t_begin)]) {
    return true;
  }
  // Sizes cost less than texts.
  if (s.recanonical_size(span.s_begin, span.s_end) !=
      t.recanonical_size(span.t_begin, span.t_end)) {
    return false;
  }
  return s.recanonical_text(span.s_begin, span.s_end) ==
         t.recanonical_text(span.t_begin, span.t_end);
}

std::vector<JudgedSpan> judged(const std::vector<DpSpan>& pairs, const CanonicalTokens& s,
                               const CanonicalTokens& t) {
  std::vector<JudgedSpan> out;
  out.reserve(pairs.size());
  for (const DpSpan& pair : pairs) out.push_back({pair, same_text(pair, s, t)});
  return out;
}

// Pairs are contiguous on both sides, so the ends of a window are those of its first and last pair.
DpSpan window(const std::vector<JudgedSpan>& pairs, size_t first, size_t last) {
  const DpSpan &begin = pairs[first].span, &end = pairs[last].span;
  return {begin.s_begin, end.s_end, begin.t_begin, end.t_end};
}

std::vector<JudgedSpan> with_fused_runs(const std::vector<JudgedSpan>& pairs,
                                        const CanonicalTokens& s, const CanonicalTokens& t) {
  if (pairs.size() < 2) return pairs;
  // Computed in doubles, with the rounding of the reference.
  const auto end = static_cast<size_t>(static_cast<double>(pairs.size()) * (1 - kEndMismatch));
  std::vector<JudgedSpan> out;
  out.reserve(pairs.size());
  for (size_t i = 0; i < pairs.size();) {
    size_t after = i;
    while (after < end && !pairs[after].correct) ++after;
    // A single wrong pair is left to pass 2.
    if (after - i >= 2) {
      const DpSpan whole = window(pairs, i, after - 1);
      out.push_back({whole, same_text(whole, s, t)});
      i = after;
    } else {
      out.push_back(pairs[i++]);
    }
  }
  return out;
}

// Returns the last pair of the shortest window from pair `first` whose texts agree, 0 if none does.
size_t window_end(const std::vector<JudgedSpan>& pairs, size_t first, const CanonicalTokens& s,
                  const CanonicalTokens& t) {
  const size_t end = std::min(first + kLongestWindow, pairs.size());
  size_t s_size = 0, t_size = 0;
  for (size_t last = first; last < end; ++last) {
    const DpSpan& pair = pairs[last].span;
    s_size += s.recanonical_size(pair.s_begin, pair.s_end);
    t_size += t.recanonical_size(pair.t_begin, pair.t_end);
    // Few windows have sizes that agree, so few texts are compared.
    if (last == first || s_size != t_size) continue;
    if (same_text(window(pairs, first, last), s, t)) return last;
  }
  return 0;
}

}  // namespace

std::vector<JudgedSpan> repaired(const std::vector<DpSpan>& pairs, const CanonicalTokens& s,
                                 const CanonicalTokens& t, DpTable& table) {
  const std::vector<JudgedSpan> fused = with_fused_runs(judged(pairs, s, t), s, t);
  std::vector<JudgedSpan> out;
  out.reserve(fused.size());
  std::vector<DpSpan> again;
  for (size_t i = 0; i < fused.size();) {
    const size_t last = fused[i].correct ? 0 : window_end(fused, i, s, t);
    if (last == 0) {  // correct, or no window agrees
      out.push_back(fused[i++]);
      continue;
    }
    const DpSpan whole = window(fused, i, last);
    again.clear();
    table.align(whole, again);
    const std::vector<JudgedSpan> parts = judged(again, s, t);
    if (std::ranges::all_of(parts, &JudgedSpan::correct)) {
      out.insert(out.end(), parts.begin(), parts.end());
    } else {
      out.push_back({whole, true});
    }
    // The window's pairs are decided; the next one starts after them.
    i = last + 1;
  }
  return out;
}

}  // namespace xrun
