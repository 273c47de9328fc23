// The precedence of transformers. If tokenizer_config.json lists its added tokens, the map is
// ignored. Otherwise the map overrides roles and the members of an extra_special_tokens object, and
// the configuration overrides other names. Both lists of extra_special_tokens count; if neither
// file has one, their old name additional_special_tokens does.

#include "core/text/tokenizer/special_tokens.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/text/tokenizer/added_tokens.h"

namespace xrun {

namespace {

// The role names that every tokenizer may have, in transformers' order.
constexpr std::string_view kRoleNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};

constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kAdditional = "additional_special_tokens";

bool is_role(std::string_view key) {
  return std::find(std::begin(kRoleNames), std::end(kRoleNames), key) != std::end(kRoleNames);
}

// Other objects, numbers and flags under such a key are settings, not tokens.
bool names_token(std::string_view key, const Json& value) {
  if (!key.ends_with("_token") || is_role(key)) return false;
  return value.is_string() || (value.is_object() && value.find("content") != nullptr);
}

bool is_empty(const Json* value) {
  return value == nullptr || value->is_null() ||
         ((value->is_array() || value->is_object()) && value->size() == 0);
}

// The tokens under one of the two keys, by name or as a list.
struct Extras {
  const Json* named = nullptr;
  const Json* listed = nullptr;
  std::string where;
};

Extras read_extras(const SettingsFile& file, const char* key) {
  Extras out{.where = file.name + ": " + key};
  const Json* value = file.json.find(key);
  if (is_empty(value)) return out;
  XRUN_CHECK(value->is_array() || value->is_object(),
             "{}: got {}, wanted a list of tokens or an object of tokens by name; write the tokens "
             "themselves there, or remove the key if tokenizer.json has them",
             out.where, value->is_string() ? dump_json(*value) : value->kind_name());
  (value->is_array() ? out.listed : out.named) = value;
  return out;
}

class SpecialTokenList {
 public:
  // A later value of a name replaces the earlier one, at the same index.
  void set(const std::string& name, const Json& value, std::string where) {
    const auto known = std::find_if(tokens_.begin(), tokens_.end(),
                                    [&](const SpecialToken& one) { return one.name == name; });
    if (known == tokens_.end()) {
      tokens_.push_back({name, value, std::move(where)});
    } else {
      *known = {name, value, std::move(where)};
    }
  }
  void set_names(const SettingsFile& file) {
    for (const auto& [key, value] : file.json.as_object()) {
      if (names_token(key, value)) set(key, value, file.name + ": " + key);
    }
  }
  void set_members(const Extras& extras) {
    if (extras.named == nullptr) return;
    for (const auto& [key, value] : extras.named->as_object()) {
      set(key, value, extras.where + "." + key);
    }
  }
  void add_list(const Extras& extras) {
    if (extras.listed == nullptr) return;
    for (const Json& value : extras.listed->as_array()) {
      tokens_.push_back({"", value, extras.where});
    }
  }
  std::vector<SpecialToken> take() { return std::move(tokens_); }

 private:
  std::vector<SpecialToken> tokens_;
};

}  // namespace

std::vector<SpecialToken> special_tokens(const SettingsFile& config, const SettingsFile& map) {
  const bool reads_map = config.json.find("added_tokens_decoder") == nullptr;
  static const SettingsFile kNone;
  const SettingsFile& last = reads_map ? map : kNone;
  SpecialTokenList out;
  for (std::string_view role : kRoleNames) {
    const std::string name(role);
    for (const SettingsFile* file : {&config, &last}) {
      if (const Json* value = file->json.find(name))
        out.set(name, *value, file->name + ": " + name);
    }
  }
  out.set_names(last);
  out.set_names(config);
  const bool has_extra = config.json.find(kExtra) != nullptr;
  const Extras own = read_extras(config, is_empty(config.json.find(kExtra)) ? kAdditional : kExtra);
  const Extras added = read_extras(last, kExtra);
  // If the configuration lists its tokens, the old key of the map is ignored.
  const bool lists =
      own.named == nullptr && (has_extra || config.json.find(kAdditional) != nullptr);
  const bool takes_old = !lists && added.listed == nullptr;
  const Extras old = takes_old ? read_extras(last, kAdditional) : Extras{};
  for (const Extras* extras : {&own, &added, &old}) out.set_members(*extras);
  // An object in the map replaces the configuration's list.
  if (added.named == nullptr) out.add_list(own);
  for (const Extras* extras : {&added, &old}) out.add_list(*extras);
  return out.take();
}

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
                                 [&](const TokenOfName& one) { return one.first == name; });
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
