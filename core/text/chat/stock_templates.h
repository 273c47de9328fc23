#pragma once
// Templates as model makers publish them, known by their fingerprints.

#include <string>
#include <string_view>

namespace xrun {

// Returns a hash of the template's text as Jinja reads it: every line ends with "\n", and the last
// line with nothing.
std::string template_fingerprint(std::string_view source);

// Returns the family that a published text belongs to: the name of a built-in template or of a
// family of template_marks.h. Empty if the text is not known.
std::string_view stock_family(std::string_view source);

}  // namespace xrun
