#include "lua/state/signature.h"

#include <algorithm>

#include "core/base/trimmed.h"

namespace xrun {
namespace {

// At commas that stand in no bracket.
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    if (std::string part(trimmed(text.substr(from, i - from))); !part.empty()) {
      parts.push_back(std::move(part));
    }
    from = i + 1;
  }
  return parts;
}

bool all_optional(const std::string& table) {
  const std::vector<std::string> names =
      split_list(std::string_view(table).substr(1, table.size() - 2));
  return std::all_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.ends_with('?'); });
}

SignaturePart parameter(std::string text) {
  SignaturePart part;
  if (text.ends_with('?')) {
    part.optional = true;
    text.pop_back();
  } else if (text.starts_with('{') && text.ends_with('}')) {
    part.optional = all_optional(text);
  }
  part.text = std::move(text);
  return part;
}

}  // namespace

Signature read_signature(std::string_view text) {
  Signature signature;
  const size_t arrow = text.rfind("->");
  std::string front(trimmed(text.substr(0, arrow)));
  if (front.starts_with('(') && front.ends_with(')')) {
    for (std::string& part : split_list(std::string_view(front).substr(1, front.size() - 2))) {
      signature.parameters.push_back(parameter(std::move(part)));
    }
  } else if (front.starts_with('{') && front.ends_with('}')) {
    signature.parameters.push_back({front, false});
  }
  if (arrow == std::string_view::npos) return signature;
  for (std::string& part : split_list(text.substr(arrow + 2))) {
    signature.results.push_back({std::move(part), false});
  }
  return signature;
}

}  // namespace xrun
