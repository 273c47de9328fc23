// Sorted ranges, found by bisection; the context rule of the final sigma is not applied.

#include "core/text/unicode/letter_case.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace xrun {

namespace {

using letter_case_data::Range;
using letter_case_data::Special;

// Returns the moved code point, or the same one.
uint32_t moved(const Range* ranges, size_t size, uint32_t point) {
  const Range* const end = ranges + size;
  const Range* range = std::lower_bound(
      ranges, end, point, [](const Range& a, uint32_t value) { return a.last < value; });
  if (range == end || point < range->first) return point;
  if ((point - range->first) % static_cast<uint32_t>(range->step) != 0) return point;
  return static_cast<uint32_t>(static_cast<int64_t>(point) + range->delta);
}

const Special* special(const Special* specials, size_t size, uint32_t point) {
  const Special* const end = specials + size;
  const Special* found = std::lower_bound(
      specials, end, point, [](const Special& a, uint32_t value) { return a.from < value; });
  return found != end && found->from == point ? found : nullptr;
}

void append(std::string& out, const Special* found, uint32_t single) {
  if (found == nullptr) return append_utf8(out, single);
  for (uint32_t point : found->to) {
    if (point != 0) append_utf8(out, point);
  }
}

const Special* upper_special(uint32_t point) {
  using namespace letter_case_data;
  return special(kUpperSpecial, kUpperSpecialSize, point);
}

const Special* lower_special(uint32_t point) {
  using namespace letter_case_data;
  return special(kLowerSpecial, kLowerSpecialSize, point);
}

uint32_t simple_upper(uint32_t point) {
  return moved(letter_case_data::kUpper, letter_case_data::kUpperSize, point);
}

uint32_t simple_lower(uint32_t point) {
  return moved(letter_case_data::kLower, letter_case_data::kLowerSize, point);
}

}  // namespace

void append_upper(std::string& out, uint32_t point) {
  append(out, upper_special(point), simple_upper(point));
}

void append_lower(std::string& out, uint32_t point) {
  append(out, lower_special(point), simple_lower(point));
}

void append_title(std::string& out, uint32_t point) {
  if (const Special* found = upper_special(point)) {
    append_utf8(out, found->to[0]);
    for (uint32_t rest : {found->to[1], found->to[2]}) {
      if (rest != 0) append_lower(out, rest);
    }
  } else if ((point >= 0x1C4 && point <= 0x1CC) || (point >= 0x1F1 && point <= 0x1F3)) {
    // The digraphs come as upper, title and lower case, in this order.
    append_utf8(out, point >= 0x1F1 ? 0x1F2 : 0x1C5 + (point - 0x1C4) / 3 * 3);
  } else {
    append_upper(out, point);
  }
}

bool has_lower(uint32_t point) {
  return lower_special(point) != nullptr || simple_lower(point) != point;
}

bool has_upper(uint32_t point) {
  return upper_special(point) != nullptr || simple_upper(point) != point;
}

}  // namespace xrun
