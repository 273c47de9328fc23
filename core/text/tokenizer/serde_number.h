#pragma once
// Numbers as the tokenizers package reads them from JSON.

#include <string_view>

namespace xrun {

// Returns a JSON number (well formed) as serde_json reads it, which rounds twice: the digits that
// fit 64 bits, then these times or over a power of ten. One of 17 digits may so lie one step beside
// the nearest double; where two ways to cut a word have equal scores, such a step decides. Too
// large a number is infinite.
double serde_number(std::string_view number);

}  // namespace xrun
