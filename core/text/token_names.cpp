// What transformers makes of the same files: of two files that name roles special_tokens_map.json
// has the last word, and none at all once tokenizer_config.json lists its added tokens.

#include "core/text/token_names.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/text/tokenizer_pipeline.h"

namespace xrun {

namespace {

bool is_role(std::string_view key) {
  return std::find(std::begin(kRoleNames), std::end(kRoleNames), key) != std::end(kRoleNames);
}

// Other objects under such a key, and numbers and flags, are settings of their own.
bool names_token(std::string_view key, const Json& value) {
  if (!key.ends_with("_token") || is_role(key)) return false;
  return value.is_string() || (value.is_object() && value.find("content") != nullptr);
}

}  // namespace

void TokenNames::each(
    const Json& file,
    const std::function<void(const std::string& name, const Json& value)>& found) {
  for (std::string_view role : kRoleNames) {
    const std::string name(role);
    if (const Json* value = file.find(name)) found(name, *value);
  }
  for (const auto& [key, value] : file.as_object()) {
    if (names_token(key, value)) found(key, value);
  }
  const Json* extra = file.find("extra_special_tokens");
  if (extra == nullptr || !extra->is_object()) return;
  for (const auto& [key, value] : extra->as_object()) found(key, value);
}

void TokenNames::read(const Json& json, const std::string& file) {
  each(json, [&](const std::string& name, const Json& value) {
    std::optional<std::string> text;
    if (value.is_string()) {
      text = value.as_string();
    } else if (!value.is_null()) {
      text = read_added_token(value, file + ": " + name).content;
    }
    Entry* entry = find(name);
    if (entry == nullptr) {
      entries_.emplace_back(name, std::move(text));
    } else {
      entry->second = std::move(text);
    }
  });
}

bool TokenNames::set_default(std::string_view name, std::string_view text) {
  if (find(name) != nullptr) return false;
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

TokenNames::Entry* TokenNames::find(std::string_view name) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& one) { return one.first == name; });
  return entry == entries_.end() ? nullptr : &*entry;
}

}  // namespace xrun
