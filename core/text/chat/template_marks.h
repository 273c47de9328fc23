#pragma once
// Generation marks put into a template's own text, for families that we carry no copy of.

#include <optional>
#include <string>
#include <string_view>

namespace xrun {

struct MarkedSource {
  std::string_view family;  // "gpt-oss"
  std::string text;         // the template with {% generation %} marks
};

// Returns the template with marks around what the model writes, end-of-turn token included, or
// nothing if no family's places are found in it, each as often as it must be. The marks add no text
// of their own; whether they fit is for the caller to check by rendering both.
std::optional<MarkedSource> mark_source(std::string_view source);

}  // namespace xrun
