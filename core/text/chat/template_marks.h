#pragma once
// Generation marks for published templates of families that have no built-in template.

#include <optional>
#include <string>
#include <string_view>

namespace xrun {

struct MarkedSource {
  std::string_view family;  // "gpt-oss"
  std::string text;         // the template with {% generation %} marks
};

// Returns the template with marks around what the model writes, end-of-turn token included; nothing
// if no family's edits all apply, each as often as it must. The marks add no text; the caller
// checks that they fit by rendering both.
std::optional<MarkedSource> mark_source(std::string_view source);

}  // namespace xrun
