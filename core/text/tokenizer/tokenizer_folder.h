#pragma once
// What a model folder says about its tokenizer beside the tokenizer itself.

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/text/tokenizer/added_tokens.h"
#include "core/text/tokenizer/token_names.h"
#include "core/text/tokenizer/vocabulary.h"

namespace xrun {

struct FolderSettings {
  Json tokenizer_config = Json::object();
  Json config = Json::object();  // config.json
  TokenNames names;
  // To add or to change, in order, a content perhaps more than once; id -1: the one it has, else
  // the next free one.
  std::vector<AddedToken> added;
  NamedTexts chat_templates;
  std::vector<std::pair<std::string, std::string>> hashed;  // name and text that enter the digest
};

// Reads tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json and the
// files of folder_templates.h, as far as they exist. Throws Error naming file and key.
FolderSettings read_folder_settings(const std::filesystem::path& dir);

// Gives roles that the folder says nothing about to the pieces that the class has by default, as
// far as the vocabulary has them, and makes these special.
void add_class_roles(FolderSettings& settings, std::string_view tokenizer_class,
                     const Vocabulary& vocabulary);

}  // namespace xrun
