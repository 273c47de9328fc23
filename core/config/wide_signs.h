#pragma once
// Hints at full-width forms of ASCII, which Chinese and Japanese input methods type, and curly
// quotes.

#include <string>
#include <string_view>

namespace xrun {

// Returns true if `text` begins with such a character.
bool is_wide_sign(std::string_view text);

// Returns "`，` (U+FF0C) is not ASCII; write ," if `text` begins with such a character, else "".
// The hint for a full-width colon proposes `colon`, which is "=" in a config.
std::string wide_sign_hint(std::string_view text, std::string_view colon = ":");

// Returns the hint for the first such character anywhere in `text`, with "=" for a colon; else "".
std::string wide_setting_hint(std::string_view text);

// Returns the hint for Lua source: for the first such character of the last line in [first, last]
// that has one outside of strings and comments; else "". The hint names the line if it is not
// `last`.
std::string wide_source_hint(std::string_view text, int first, int last);

}  // namespace xrun
