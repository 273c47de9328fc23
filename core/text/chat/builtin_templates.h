#pragma once
// The chat templates that the library carries: core/text/chat/templates/*.jinja, put in at build time.

#include <span>
#include <string_view>

namespace xrun {

struct BuiltinTemplate {
  std::string_view name;  // the file's name without .jinja
  std::string_view source;
};

// In alphabetical order.
std::span<const BuiltinTemplate> builtin_templates();

}  // namespace xrun
