#pragma once
// The special tokens that tokenizer_config.json and special_tokens_map.json name.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

struct SettingsFile {
  Json json = Json::object();
  std::string name;  // for messages
};

struct SpecialToken {
  std::string name;   // "eos_token", "image_token"; "": from a list
  Json value;         // a string, an object with "content", or null: explicitly none
  std::string where;  // file and key
};

// Returns the special tokens of a folder in the order in which they get ids: roles, other names,
// lists. Each name occurs once. Throws Error naming file and key if extra_special_tokens
// or additional_special_tokens is neither a list nor an object.
std::vector<SpecialToken> special_tokens(const SettingsFile& config, const SettingsFile& map);

// The special tokens that a folder names: bos_token, eos_token, image_token, ...
class TokenNames {
 public:
  TokenNames() = default;
  // Takes the tokens that have a name. Throws Error naming file and key.
  explicit TokenNames(const std::vector<SpecialToken>& tokens);

  // Names a token unless the folder mentions that name. Returns true if it was set.
  bool set_default(std::string_view name, std::string_view text);

  // Returns the text of a name, "" if it has none.
  std::string_view text(std::string_view name) const;

  // Returns the names that have a string (which may be empty), as templates see them.
  NamedTexts texts() const;

 private:
  // A name's token; nullopt: explicitly none.
  using TokenOfName = std::pair<std::string, std::optional<std::string>>;
  std::vector<TokenOfName> entries_;
};

}  // namespace xrun
