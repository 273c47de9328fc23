#pragma once
// The special tokens that tokenizer_config.json and special_tokens_map.json name.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// The names that every tokenizer may have, in transformers' order.
inline constexpr std::string_view kRoleNames[] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

struct SettingsFile {
  Json json = Json::object();
  std::string name;  // for messages
};

struct SpecialToken {
  std::string name;   // "eos_token", "image_token"; "" of a list
  Json value;         // a text, an object with "content", or null: said to be none
  std::string where;  // file and key
};

// Returns the special tokens of a folder in the order in which they get ids: the roles, the other
// names, the lists. A name is there once. Throws Error naming file and key if extra_special_tokens
// or additional_special_tokens is neither a list nor an object.
std::vector<SpecialToken> special_tokens(const SettingsFile& config, const SettingsFile& map);

}  // namespace xrun
