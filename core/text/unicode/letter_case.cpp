// Bisection over sorted ranges. Callers apply the context rule of the final sigma.

#include "core/text/unicode/letter_case.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/unicode/unicode.h"

namespace xrun {

namespace {

using letter_case_data::CaseRange;
using letter_case_data::SpecialCase;

// Returns the mapped code point, or the same one.
uint32_t mapped(const CaseRange* ranges, size_t size, uint32_t point) {
  const CaseRange* const end = ranges + size;
  const CaseRange* range = std::lower_bound(
      ranges, end, point, [](const CaseRange& a, uint32_t value) { return a.last < value; });
  if (range == end || point < range->first) return point;
  // Ranges of step 2 hold pairs of upper and lower case, side by side.
  if ((point - range->first) % static_cast<uint32_t>(range->step) != 0) return point;
  return static_cast<uint32_t>(static_cast<int64_t>(point) + range->delta);
}

const SpecialCase* special(const SpecialCase* specials, size_t size, uint32_t point) {
  const SpecialCase* const end = specials + size;
  const SpecialCase* found = std::lower_bound(
      specials, end, point, [](const SpecialCase& a, uint32_t value) { return a.from < value; });
  return found != end && found->from == point ? found : nullptr;
}

void append(std::string& out, const SpecialCase* found, uint32_t single) {
  if (found == nullptr) return append_utf8(out, single);
  for (uint32_t point : found->to) {
    if (point != 0) append_utf8(out, point);
  }
}

const SpecialCase* lower_special(uint32_t point) {
  using namespace letter_case_data;
  return special(kLowerSpecial, kLowerSpecialSize, point);
}

uint32_t simple_lower(uint32_t point) {
  return mapped(letter_case_data::kLower, letter_case_data::kLowerSize, point);
}

// Letters of several characters or with a title case of their own: sharp s, the Croatian digraphs,
// the combining iota and the Greek letters that carry it.
bool is_irregular(uint32_t point) {
  return point == 0xDF || point == 0x345 || (point >= 0x1C4 && point <= 0x1CC) ||
         (point >= 0x1F1 && point <= 0x1F3) || (point >= 0x1F80 && point <= 0x1FFF);
}

}  // namespace

void append_lower(std::string& out, uint32_t point) {
  append(out, lower_special(point), simple_lower(point));
}

// The first code point with this lower case is the upper case: later ones are compatibility
// letters, such as the Kelvin sign.
std::optional<uint32_t> upper_case(uint32_t point) {
  using namespace letter_case_data;
  for (size_t i = 0; i < kLowerSize; ++i) {
    const CaseRange& range = kLower[i];
    const int64_t from = static_cast<int64_t>(point) - range.delta;
    if (from < range.first || from > range.last || (from - range.first) % range.step != 0) continue;
    return is_irregular(point) ? std::nullopt : std::optional(static_cast<uint32_t>(from));
  }
  if (is_irregular(point) || category(point) == Category::kLl) return std::nullopt;
  return point;
}

}  // namespace xrun
