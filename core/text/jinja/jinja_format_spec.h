#pragma once
// Python's format(value, specification): "{:>8}", "{:.2f}", "{:,}".

#include <string_view>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// Returns the text of a value under a specification that is not empty. A text keeps its marks; fill
// characters and numbers count as the template's. Throws Fault on a specification that Python
// refuses, and on the few that are not supported: grouped zeros in front, a real number's precision
// without a type, "n", "c", and a width or precision beyond 10,000.
TextPtr format_value(const Value& value, std::string_view specification, Budget& budget);

}  // namespace xrun::jinja
