#pragma once
// Families of chat templates: the built-in marked ones, and published texts by fingerprint.

#include <span>
#include <string>
#include <string_view>

namespace xrun {

struct BuiltinTemplate {
  std::string_view name;  // the file's name without .jinja
  std::string_view source;
};

// Returns the templates of core/text/chat/templates in the order of their file names.
std::span<const BuiltinTemplate> builtin_templates();
// Returns the built-in template of this name, or null.
const BuiltinTemplate* find_builtin(std::string_view name);

// Returns a hash of the template's text as Jinja reads it: every line ends with "\n", the last line
// with nothing.
std::string template_fingerprint(std::string_view source);

// Returns the family of a published text: the name of a built-in template or of a family that
// mark_source() (template_marks.h) knows. Empty if the text is unknown.
std::string_view stock_family(std::string_view source);

}  // namespace xrun
