#pragma once
// Families of chat templates: the built-in marked ones, published texts by fingerprint, and marks
// for families that have no built-in template.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace xrun {

struct BuiltinTemplate {
  std::string_view name;  // the file's name without .jinja
  std::string_view source;
};

// Returns the templates of core/text/chat/templates in alphabetical order.
std::span<const BuiltinTemplate> builtin_templates();

// Returns a hash of the template's text as Jinja reads it: every line ends with "\n", the last line
// with nothing.
std::string template_fingerprint(std::string_view source);

// Returns the family of a published text: the name of a built-in template or of a family that
// mark_source() knows. Empty if the text is unknown.
std::string_view stock_family(std::string_view source);

struct MarkedSource {
  std::string_view family;  // "gpt-oss"
  std::string text;         // the template with {% generation %} marks
};

// Returns the template with marks around what the model writes, end-of-turn token included; nothing
// if no family's edits all apply, each as often as it must. The marks add no text; the caller
// checks that they fit by rendering both.
std::optional<MarkedSource> mark_source(std::string_view source);

}  // namespace xrun
