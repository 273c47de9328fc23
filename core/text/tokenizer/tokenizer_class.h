#pragma once
// Defaults of the tokenizer classes of transformers: the stages for a folder with only vocab.json
// and merges.txt, and the special tokens for a folder that names none.

#include <span>
#include <string>
#include <string_view>

#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

struct TokenizerClass {
  const char* name;        // without the suffix "Fast"
  const char* model_type;  // of config.json, used if no class is named
  const char* stages;      // JSON: normalizer, pre_tokenizer, decoder, as in a tokenizer.json
};

// Returns a class by its name (with or without "Fast") or by a model type, or nullptr.
const TokenizerClass* find_tokenizer_class(std::string_view name);
const TokenizerClass* find_model_type_class(std::string_view model_type);
// Returns the known names, for messages.
std::string known_tokenizer_classes();

// Makes the pipeline of a class. add_prefix_space is the option of tokenizer_config.json.
TokenizerPipeline make_class_pipeline(const TokenizerClass& known, const BpeFiles& files,
                                      bool add_prefix_space);

struct ClassRole {
  std::string_view name;  // "eos_token"
  std::string_view text;
};

// Returns the default roles of a class by its name, with or without "Fast"; empty for an unknown
// class and for one without defaults, such as PreTrainedTokenizerFast.
std::span<const ClassRole> class_roles(std::string_view tokenizer_class);

}  // namespace xrun
