// Bisection over sorted ranges. The context rule of the final sigma is the caller's.

#include "core/text/unicode/letter_case.h"

#include <algorithm>

#include "core/base/utf8.h"

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

const SpecialCase* upper_special(uint32_t point) {
  using namespace letter_case_data;
  return special(kUpperSpecial, kUpperSpecialSize, point);
}

const SpecialCase* lower_special(uint32_t point) {
  using namespace letter_case_data;
  return special(kLowerSpecial, kLowerSpecialSize, point);
}

uint32_t simple_upper(uint32_t point) {
  return mapped(letter_case_data::kUpper, letter_case_data::kUpperSize, point);
}

uint32_t simple_lower(uint32_t point) {
  return mapped(letter_case_data::kLower, letter_case_data::kLowerSize, point);
}

}  // namespace

void append_upper(std::string& out, uint32_t point) {
  append(out, upper_special(point), simple_upper(point));
}

void append_lower(std::string& out, uint32_t point) {
  append(out, lower_special(point), simple_lower(point));
}

void append_title(std::string& out, uint32_t point) {
  if (point == 0x149) return append_upper(out, point);  // "ʼN": the apostrophe is not a letter
  if (const SpecialCase* found = upper_special(point)) {
    append_utf8(out, found->to[0]);
    for (uint32_t rest : {found->to[1], found->to[2]}) {
      if (rest != 0) append_lower(out, rest);
    }
  } else if ((point >= 0x1C4 && point <= 0x1CC) || (point >= 0x1F1 && point <= 0x1F3)) {
    // Each digraph has three code points: upper, title and lower case.
    append_utf8(out, point >= 0x1F1 ? 0x1F2 : 0x1C5 + (point - 0x1C4) / 3 * 3);
  } else {
    append_upper(out, point);
  }
}

}  // namespace xrun
