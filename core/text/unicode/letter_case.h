#pragma once
// Upper and lower case of single code points, Python's full mappings.

#include <cstddef>
#include <cstdint>
#include <string>

namespace xrun {

// Appends the upper or lower case of a code point as UTF-8; one may become up to three ("ß": "SS").
void append_upper(std::string& out, uint32_t code_point);
void append_lower(std::string& out, uint32_t code_point);
// Appends the form at the head of a word: the upper case, but "ß" gives "Ss" and "ǆ" gives "ǅ".
void append_title(std::string& out, uint32_t code_point);

// Whether the case mapping changes the code point: an upper-case letter changes when lowered.
bool has_lower(uint32_t code_point);
bool has_upper(uint32_t code_point);

namespace letter_case_data {

// Code points first, first + step, ..., last move by delta.
struct Range {
  uint32_t first;
  uint32_t last;
  int32_t step;
  int32_t delta;
};

struct Special {
  uint32_t from;
  uint32_t to[3];  // zero-padded
};

extern const Range kUpper[];
extern const size_t kUpperSize;
extern const Special kUpperSpecial[];
extern const size_t kUpperSpecialSize;
extern const Range kLower[];
extern const size_t kLowerSize;
extern const Special kLowerSpecial[];
extern const size_t kLowerSpecialSize;

}  // namespace letter_case_data

}  // namespace xrun
