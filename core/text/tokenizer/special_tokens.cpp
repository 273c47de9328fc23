// What transformers makes of the two files. Once tokenizer_config.json lists its added tokens the
// map says nothing. Else the map has the last word on roles and on the members of an
// extra_special_tokens that is an object, the configuration on other names; both lists of
// extra_special_tokens count, and additional_special_tokens, their old name, where there are none.

#include "core/text/tokenizer/special_tokens.h"

#include <algorithm>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kAdditional = "additional_special_tokens";

bool is_role(std::string_view key) {
  return std::find(std::begin(kRoleNames), std::end(kRoleNames), key) != std::end(kRoleNames);
}

// Other objects under such a key, and numbers and flags, are settings of their own.
bool names_token(std::string_view key, const Json& value) {
  if (!key.ends_with("_token") || is_role(key)) return false;
  return value.is_string() || (value.is_object() && value.find("content") != nullptr);
}

bool is_empty(const Json* value) {
  return value == nullptr || value->is_null() ||
         ((value->is_array() || value->is_object()) && value->size() == 0);
}

// The tokens under one of the two keys: by name or as a list.
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
  // Later values of a name take its place.
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
  const bool lists =
      own.named == nullptr && (has_extra || config.json.find(kAdditional) != nullptr);
  const bool takes_old = !lists && added.listed == nullptr;
  const Extras old = takes_old ? read_extras(last, kAdditional) : Extras{};
  for (const Extras* extras : {&own, &added, &old}) out.set_members(*extras);
  if (added.named == nullptr) out.add_list(own);
  for (const Extras* extras : {&added, &old}) out.add_list(*extras);
  return out.take();
}

}  // namespace xrun
