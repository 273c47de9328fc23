#pragma once
// Columns that text takes on a terminal, and text made to fit them.

#include <cstddef>
#include <string>
#include <string_view>

namespace xrun {

// One thing that a cursor steps over: a character with the marks, joiners and selectors that follow
// it, an escape sequence (ESC [ ... letter), or an invalid byte.
struct TextCharacter {
  size_t size;  // bytes, at least 1
  int columns;  // 0 for an escape sequence, or a mark that nothing precedes
};

// Reads the character at text[at]. Requires at < text.size(). East Asian wide characters and emoji
// take two columns (Unicode 15), emoji joined by U+200D together two, controls and invalid bytes
// one each. Reads any bytes.
TextCharacter text_character(std::string_view text, size_t at);

// Columns of the whole text; of a text of several lines, as if they were one.
int text_width(std::string_view text);

// Bytes of the longest beginning, whole characters, that takes at most `columns`.
size_t fitting_size(std::string_view text, int columns);

// Cuts text to at most `columns`, ending with "…" where something was cut; never inside a
// character. Colours begun before the cut are ended.
std::string cut_to_width(std::string_view text, int columns);

// Cuts text, or adds spaces, to exactly `columns`.
std::string pad_to_width(std::string_view text, int columns);

}  // namespace xrun
