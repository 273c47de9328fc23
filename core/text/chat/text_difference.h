#pragma once
// Where two texts part, for people: blanks made visible, a mark under the first difference.

#include <string>
#include <string_view>

namespace xrun {

// Returns two lines, each its label and the text around the first difference, and a third with a
// mark under it. Spaces are shown as ␣, newlines as ⏎, tabs as →, other control characters as their
// picture. Equal texts say so.
std::string text_difference(std::string_view label_a, std::string_view a, std::string_view label_b,
                            std::string_view b);

// Returns `text` with its blanks made visible.
std::string visible_blanks(std::string_view text);

}  // namespace xrun
