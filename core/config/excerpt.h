#pragma once
// The source line below an error message, with a mark under what it speaks of.

#include <string>
#include <string_view>

namespace xrun {

// Line `line` (1-based) of a text without its line end, or "" if there is none.
std::string_view line_of(std::string_view text, int line);

// "\n    22 |   local y = x:matmul(w)\n       |             ^^^^^^" with marks under the bytes
// [begin, end) of the line, or "" for a blank line.
std::string excerpt_text(std::string_view source_line, int line, size_t begin, size_t end);

// The excerpt of one word of a line (its first occurrence), of the whole statement if it has none.
std::string excerpt_of_word(std::string_view text, int line, std::string_view word);

}  // namespace xrun
