#pragma once
// Shows the first difference of two strings in a message, with visible blanks and a caret.

#include <string>
#include <string_view>

namespace xrun {

// Returns two lines, each a label and the text around the first difference, and a third with a
// caret under it. Spaces are shown as ␣, newlines as ⏎, tabs as →, other control characters as
// their Unicode pictures. Equal strings return "both texts are equal".
std::string text_difference(std::string_view label_a, std::string_view a, std::string_view label_b,
                            std::string_view b);

// Returns the text with blanks and control characters shown as above; an invalid byte becomes
// U+FFFD.
std::string visible_blanks(std::string_view text);

}  // namespace xrun
