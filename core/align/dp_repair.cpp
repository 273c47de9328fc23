// Two passes over the pairs; a pair is right if same_text() holds for it.
// 1. Each run of two or more wrong pairs in the first 80 % of the list becomes one pair.
// 2. From each remaining wrong pair, windows of 2 to 10 pairs are tried, shortest first. The first
//    one whose texts agree is aligned again without anchors; if each of the new pairs is right they
//    replace the window, else the window becomes one pair.
// The reference also splits a fused pair that has the same tokens on both sides. There is none: the
// programme pairs equal tokens one to one, which scores more than anything else.

#include "core/align/dp_repair.h"

#include <algorithm>

namespace xrun {
namespace {

constexpr double kEndMismatch = 0.2;  // pass 1 leaves this share at the end alone
constexpr size_t kLongestWindow = 10;

// Pairs are contiguous on both sides, so the ends of a window are those of its first and last pair.
DpSpan window(const std::vector<DpSpan>& pairs, size_t first, size_t last) {
  return {pairs[first].s_begin, pairs[last].s_end, pairs[first].t_begin, pairs[last].t_end};
}

std::vector<DpSpan> with_fused_runs(const std::vector<DpSpan>& pairs, const CanonicalTokens& s,
                                    const CanonicalTokens& t) {
  if (pairs.size() < 2) return pairs;
  // In doubles like the reference, whose rounding this must share.
  const auto end = static_cast<size_t>(static_cast<double>(pairs.size()) * (1 - kEndMismatch));
  std::vector<DpSpan> out;
  for (size_t i = 0; i < pairs.size();) {
    size_t after = i;
    while (after < end && !same_text(pairs[after], s, t)) ++after;
    // A single wrong pair is left to pass 2.
    if (after - i >= 2) {
      out.push_back(window(pairs, i, after - 1));
      i = after;
    } else {
      out.push_back(pairs[i++]);
    }
  }
  return out;
}

}  // namespace

bool same_text(const DpSpan& span, const CanonicalTokens& s, const CanonicalTokens& t) {
  // Most pairs: equal tokens stay equal.
  if (span.students() == 1 && span.teachers() == 1 &&
      s.id[static_cast<size_t>(span.s_begin)] == t.id[static_cast<size_t>(span.t_begin)]) {
    return true;
  }
  // Windows that agree are rare, and sizes cost less than texts.
  if (s.size_again(span.s_begin, span.s_end) != t.size_again(span.t_begin, span.t_end)) {
    return false;
  }
  return s.text_again(span.s_begin, span.s_end) == t.text_again(span.t_begin, span.t_end);
}

std::vector<DpSpan> repaired(const std::vector<DpSpan>& pairs, const CanonicalTokens& s,
                             const CanonicalTokens& t, DpSegments& segments) {
  const std::vector<DpSpan> fused = with_fused_runs(pairs, s, t);
  std::vector<DpSpan> out, again;
  const auto right = [&](const DpSpan& pair) { return same_text(pair, s, t); };
  for (size_t i = 0; i < fused.size();) {
    while (i < fused.size() && right(fused[i])) out.push_back(fused[i++]);
    if (i == fused.size()) break;

    size_t last = i + 1;
    const size_t end = std::min(i + kLongestWindow, fused.size());
    while (last < end && !right(window(fused, i, last))) ++last;
    if (last >= end) {  // no window agrees
      out.push_back(fused[i++]);
      continue;
    }
    const DpSpan whole = window(fused, i, last);
    again.clear();
    segments.align(whole, again);
    if (std::all_of(again.begin(), again.end(), right)) {
      out.insert(out.end(), again.begin(), again.end());
    } else {
      out.push_back(whole);
    }
    // The window's pairs are decided; the next one starts after them.
    i = last + 1;
  }
  return out;
}

}  // namespace xrun
