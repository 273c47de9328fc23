#pragma once
// The files of a model folder beside the tokenizer itself: settings, special tokens, chat
// templates.

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/text/tokenizer/added_tokens.h"
#include "core/text/tokenizer/special_tokens.h"
#include "core/text/tokenizer/vocabulary.h"

namespace xrun {

struct FolderSettings {
  Json tokenizer_config = Json::object();
  Json config = Json::object();  // config.json
  TokenNames names;
  // Tokens to add or to change, in order; one text may occur several times. Id -1: the id that the
  // token already has, else the next free one.
  std::vector<AddedToken> added;
  NamedTexts chat_templates;
  std::vector<std::pair<std::string, std::string>> hashed;  // name and text, input of the digest
};

// Reads tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json and the
// files of read_folder_templates; any of them may be missing. Throws Error naming file and key.
FolderSettings read_folder_settings(const std::filesystem::path& dir);

// Gives each role that no file sets the default token of the tokenizer's class, if the vocabulary
// has that token, and marks it special.
void add_class_roles(FolderSettings& settings, std::string_view tokenizer_class,
                     const Vocabulary& vocabulary);

// Returns the chat templates of a folder: chat_template.jinja as "default", and
// additional_chat_templates/NAME.jinja as NAME, in alphabetical order. If there are none, those of
// "chat_template" in tokenizer_config.json: a string ("default"; empty: none), an object of strings
// by name, or a list of {"name", "template"}. Throws Error naming file and key; `config_name` is
// the path of `config`.
NamedTexts read_folder_templates(const std::filesystem::path& dir, const Json& config,
                                 const std::string& config_name);

}  // namespace xrun
