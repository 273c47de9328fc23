#pragma once
// Excerpts of source for messages: a line with carets under some of its bytes.

#include <cstddef>
#include <string>
#include <string_view>

namespace xrun {

// Returns line `line` (1-based) of `text` without its line end, or "" if there is none.
std::string_view line_of(std::string_view text, int line);

// Returns "\n    22 |   local y = x:matmul(w)\n       |             ^^^^^^" with carets under the
// bytes [begin, end) of the line, or "" for a blank line.
std::string excerpt_text(std::string_view source_line, int line, size_t begin, size_t end);

// Returns the excerpt with carets under the first occurrence of a word in the line, or under the
// whole statement if there is none.
std::string excerpt_of_word(std::string_view text, int line, std::string_view word);

// Returns the excerpt with a caret under the byte `at` of the text, which may be the end of its
// line.
std::string excerpt_of_byte(std::string_view text, size_t at);

}  // namespace xrun
