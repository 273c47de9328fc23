#pragma once
// Kinds of code points as Python's str methods tell them.

#include <cstdint>

namespace xrun::jinja {

bool is_space_point(uint32_t point);    // str.isspace
bool is_alpha_point(uint32_t point);    // str.isalpha
bool is_decimal_point(uint32_t point);  // str.isdecimal
bool is_digit_point(uint32_t point);    // str.isdigit: decimals, superscripts, circled digits, ...
bool is_numeric_point(uint32_t point);  // str.isnumeric: any number, ideographs too
bool is_alnum_point(uint32_t point);    // str.isalnum

bool is_lower_point(uint32_t point);  // of a single character, str.islower
bool is_upper_point(uint32_t point);  // str.isupper
// Whether there are cases of it: lower, upper or title.
bool is_cased_point(uint32_t point);
// Whether a word goes on over it when the context of a sigma is looked at: marks, apostrophes, ...
bool is_case_ignorable_point(uint32_t point);

// Returns the value of a decimal digit of any script, or -1.
int decimal_value(uint32_t point);

}  // namespace xrun::jinja
