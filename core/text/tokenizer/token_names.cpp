#include "core/text/tokenizer/token_names.h"

#include <algorithm>

#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

TokenNames::TokenNames(const std::vector<SpecialToken>& tokens) {
  for (const SpecialToken& token : tokens) {
    if (token.name.empty()) continue;
    std::optional<std::string> text;
    if (token.value.is_string()) {
      text = token.value.as_string();
    } else if (!token.value.is_null()) {
      text = read_added_token(token.value, token.where).content;
    }
    entries_.emplace_back(token.name, std::move(text));
  }
}

bool TokenNames::set_default(std::string_view name, std::string_view text) {
  const bool known = std::any_of(entries_.begin(), entries_.end(),
                                 [&](const Entry& one) { return one.first == name; });
  if (known) return false;
  entries_.emplace_back(name, text);
  return true;
}

std::string_view TokenNames::text(std::string_view name) const {
  for (const auto& [known, text] : entries_) {
    if (known == name && text) return *text;
  }
  return "";
}

NamedTexts TokenNames::texts() const {
  NamedTexts out;
  for (const auto& [name, text] : entries_) {
    if (text) out.emplace_back(name, *text);
  }
  return out;
}

}  // namespace xrun
