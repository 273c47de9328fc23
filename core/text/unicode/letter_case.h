#pragma once
// Upper and lower case of single code points, as Python maps them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace xrun {

// Appends the lower case of a code point in UTF-8, up to two code points.
void append_lower(std::string& out, uint32_t code_point);
// Returns the upper case of a code point, which is its title case too; nullopt for the letters
// where it is not the inverse of lower case ("ß", "ǆ", "ŉ", ...).
std::optional<uint32_t> upper_case(uint32_t code_point);

namespace letter_case_data {

// Code points first, first + step, ..., last map to themselves plus delta.
struct CaseRange {
  uint32_t first;
  uint32_t last;
  int32_t step;
  int32_t delta;
};

struct SpecialCase {
  uint32_t from;
  uint32_t to[3];  // zero-padded
};

extern const CaseRange kLower[];
extern const size_t kLowerSize;
extern const SpecialCase kLowerSpecial[];
extern const size_t kLowerSpecialSize;

}  // namespace letter_case_data

}  // namespace xrun
