#pragma once
// Foreign bytes as text that a terminal or a page may be given: nothing in it moves a cursor,
// changes a colour, turns the reading direction or stays unseen.

#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

// What becomes of blanks.
enum class Blanks {
  kKept,          // newline and tab stay
  kBreaksMarked,  // newline as ⏎, tab as →
  kMarked,        // and a space as ·
};

// Returns bytes as valid UTF-8 of printable characters. A control below U+0080 and an invalid byte
// become <1B>, <E4>; other controls, bidirectional and invisible format characters, separators of
// lines and non-characters become <U+202E>. The two joiners U+200C and U+200D stay, as do marks,
// unless they come first: alone they would join what is printed before.
std::string shown_text(std::string_view bytes, Blanks blanks = Blanks::kKept);

// Whether a code point is shown as itself, blanks aside.
bool is_shown(uint32_t code_point);

}  // namespace xrun
