#pragma once
// What a model folder says about its tokenizer beside the tokenizer itself.

#include "core/base/json.h"
#include "core/text/added_tokens.h"

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

// A special token by role, as tokenizer_config.json or special_tokens_map.json names it.
struct NamedToken {
  std::string text;   // "": none
  int64_t id = -1;    // from config.json's bos_token_id and so on, where no text is given
};

struct FolderSettings {
  Json tokenizer_config = Json::object();
  Json config = Json::object();           // config.json
  NamedToken bos, eos, pad, unk;
  // To add or to change, in order, a content perhaps more than once; id -1: the one it has, else
  // the next free one.
  std::vector<AddedToken> added;
  std::string chat_template;
  std::vector<std::pair<std::string, std::string>> hashed;  // name and text that enter the digest
};

// Reads tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja and
// config.json, as far as they exist. Throws Error naming file and key.
FolderSettings read_folder_settings(const std::filesystem::path& dir);

}  // namespace xrun
