#pragma once
// Full-width forms of ASCII, as Chinese and Japanese input methods type them, and curly quotes.

#include <string>
#include <string_view>

namespace xrun {

// Returns "`，` (U+FF0C) is not ASCII; write ," if `text` begins with such a character, else "". A
// full-width colon stands for `colon`: in a config it is = that was meant.
std::string wide_sign_hint(std::string_view text, std::string_view colon = ":");

// The same for the first such character anywhere in `text`, with the = of a config.
std::string wide_setting_hint(std::string_view text);

// The same for Lua source: for the first such character of the last line in [first, last] that has
// one outside of strings and comments. The hint names the line if it is not `last`.
std::string wide_source_hint(std::string_view text, int first, int last);

}  // namespace xrun
