// Bisection over sorted ranges, and the grapheme cluster rules of UAX #29.

#include "core/text/unicode/unicode_sets.h"

#include <algorithm>
#include <span>

#include "core/base/utf8.h"
#include "core/text/unicode/letter_case.h"
#include "core/text/unicode/unicode_sets_data.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

using namespace unicode_data;

// Returns the range that holds a code point, or nullptr.
template <class Range>
const Range* find_range(std::span<const Range> ranges, uint32_t c) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), c,
                       [](uint32_t value, const Range& r) { return value < r.first; });
  if (after == ranges.begin() || c > std::prev(after)->last) return nullptr;
  return &*std::prev(after);
}

bool contains(const CodeRange* ranges, size_t size, uint32_t c) {
  return find_range(std::span(ranges, size), c) != nullptr;
}

// In the order of the generator.
enum class GraphemeClass : uint8_t {
  kOther,
  kControl,
  kCr,
  kLf,
  kExtend,
  kZwj,
  kSpacingMark,
  kPrepend,
  kRegional,
  kL,
  kV,
  kT,
  kLv,
  kLvt,
  kPicture
};

GraphemeClass grapheme_class(uint32_t c) {
  // Hangul syllables: every 28th has no final consonant (LV), the others have one (LVT).
  if (c >= 0xAC00 && c < 0xD7A4) {
    return (c - 0xAC00) % 28 == 0 ? GraphemeClass::kLv : GraphemeClass::kLvt;
  }
  const ValueRange* range = find_range(std::span(kGraphemes, kGraphemesSize), c);
  return range == nullptr ? GraphemeClass::kOther : GraphemeClass(range->value);
}

bool is_control(GraphemeClass k) {
  return k == GraphemeClass::kControl || k == GraphemeClass::kCr || k == GraphemeClass::kLf;
}

// The state that decides whether a cluster continues.
struct ClusterState {
  GraphemeClass last;
  bool after_picture;  // a picture and extenders, then perhaps a joiner (GB11)
  bool odd_regional;   // an odd number of regional indicators (GB12)
};

// GB3 to GB13 in their order; without a rule two characters are separate (GB999).
bool joins(const ClusterState& state, GraphemeClass next) {
  using G = GraphemeClass;
  const G a = state.last;
  if (a == G::kCr && next == G::kLf) return true;
  if (is_control(a) || is_control(next)) return false;
  // GB9, GB9a, GB9b
  if (next == G::kExtend || next == G::kZwj || next == G::kSpacingMark || a == G::kPrepend) {
    return true;
  }
  // GB6 to GB8: Hangul
  if (a == G::kL) return next == G::kL || next == G::kV || next == G::kLv || next == G::kLvt;
  if (a == G::kLv || a == G::kV) return next == G::kV || next == G::kT;
  if (a == G::kLvt || a == G::kT) return next == G::kT;
  // GB11, then GB12 and GB13
  if (a == G::kZwj) return state.after_picture && next == G::kPicture;
  return a == G::kRegional && next == G::kRegional && state.odd_regional;
}

}  // namespace

bool is_accent(uint32_t c) { return c >= 0x300 && contains(kAccents, kAccentsSize, c); }

bool is_bert_accent(uint32_t c) {
  return c >= 0x300 && contains(kBertAccents, kBertAccentsSize, c);
}

bool is_bert_control(uint32_t c) { return contains(kBertControls, kBertControlsSize, c); }

bool is_punctuation(uint32_t c) { return contains(kPunctuation, kPunctuationSize, c); }

bool is_bert_ideograph(uint32_t c) {
  // The package's ranges: 0x2B920 where Unicode's block begins at 0x2B820.
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

void append_lowercase(std::string& out, uint32_t c) {
  // ASCII needs no table.
  if (c < 128) {
    out.push_back(char(c >= 'A' && c <= 'Z' ? c + 32 : c));
    return;
  }
  const LowerDifference* end = kLowerDifferences + kLowerDifferencesSize;
  const LowerDifference* found =
      std::lower_bound(kLowerDifferences, end, c,
                       [](const LowerDifference& d, uint32_t value) { return d.from < value; });
  if (found != end && found->from == c) return append_utf8(out, found->to);
  append_lower(out, c);
}

size_t grapheme_end(std::string_view text, size_t at) {
  const GraphemeClass first = grapheme_class(utf8_character(text, at));
  ClusterState state{first, first == GraphemeClass::kPicture, first == GraphemeClass::kRegional};
  for (at += utf8_size(text[at]); at < text.size(); at += utf8_size(text[at])) {
    const GraphemeClass next = grapheme_class(utf8_character(text, at));
    if (!joins(state, next)) break;
    const bool extends = next == GraphemeClass::kExtend || next == GraphemeClass::kZwj;
    state.after_picture = next == GraphemeClass::kPicture || (extends && state.after_picture);
    // Flags are pairs of regional indicators: a third one begins another flag.
    state.odd_regional = next == GraphemeClass::kRegional && !state.odd_regional;
    state.last = next;
  }
  return at;
}

}  // namespace xrun
