#pragma once
// Turns untrusted bytes into text that is safe on a terminal or a page: nothing in it moves the
// cursor, changes a colour, turns the reading direction or is invisible.

#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// The display of newlines, tabs and spaces.
enum class Blanks {
  kUnchanged,     // all stay
  kBreaksMarked,  // a newline becomes ⏎, a tab →
  kMarked,        // likewise, and a space becomes ·
};

// Returns valid UTF-8 of printable characters. ASCII controls and invalid bytes become <1B>, <E4>;
// other controls, bidirectional and invisible format characters, line separators and non-characters
// become <U+202E>. Marks and the joiners U+200C and U+200D stay, except at the beginning and after
// a newline or tab, where they would join what was printed before.
std::string shown_text(std::string_view bytes, Blanks blanks = Blanks::kUnchanged);

// Returns true if shown_text leaves a code point unchanged; false for newline and tab too.
bool is_shown(uint32_t code_point);

}  // namespace xrun
