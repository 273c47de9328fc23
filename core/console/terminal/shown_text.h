#pragma once
// Untrusted bytes as text that is safe for a terminal or a page: nothing in it moves the cursor,
// changes a colour, turns the reading direction or is invisible.

#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// The display of newlines, tabs and spaces.
enum class Blanks {
  kUnchanged,     // newline and tab stay
  kBreaksMarked,  // newline as ⏎, tab as →
  kMarked,        // the same, and a space as ·
};

// Returns valid UTF-8 of printable characters. A control below U+0080 and an invalid byte become
// <1B>, <E4>; other controls, bidirectional and invisible format characters, line separators and
// non-characters become <U+202E>. The joiners U+200C and U+200D and marks stay unless they come
// first, where they would join the text printed before.
std::string shown_text(std::string_view bytes, Blanks blanks = Blanks::kUnchanged);

// Returns true if a code point is shown as itself, blanks aside.
bool is_shown(uint32_t code_point);

}  // namespace xrun
