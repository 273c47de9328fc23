#pragma once
// Upper and lower case of single code points, with Python's full mappings.

#include <cstddef>
#include <cstdint>
#include <string>

namespace xrun {

// Appends the upper or lower case of a code point in UTF-8, up to three code points ("ß": "SS").
void append_upper(std::string& out, uint32_t code_point);
void append_lower(std::string& out, uint32_t code_point);
// Appends the title case: the upper case, but "ß" gives "Ss" and "ǆ" gives "ǅ".
void append_title(std::string& out, uint32_t code_point);

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

extern const CaseRange kUpper[];
extern const size_t kUpperSize;
extern const SpecialCase kUpperSpecial[];
extern const size_t kUpperSpecialSize;
extern const CaseRange kLower[];
extern const size_t kLowerSize;
extern const SpecialCase kLowerSpecial[];
extern const size_t kLowerSpecialSize;

}  // namespace letter_case_data

}  // namespace xrun
