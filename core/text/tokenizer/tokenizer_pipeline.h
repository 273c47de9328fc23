#pragma once
// The stages of a tokenizer as its files describe them.

#include "core/text/tokenizer/added_tokens.h"
#include "core/text/tokenizer/normalizer.h"
#include "core/text/tokenizer/post_processor.h"
#include "core/text/tokenizer/pre_tokenizer.h"
#include "core/text/tokenizer/token_decoder.h"
#include "core/text/tokenizer/token_model.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace xrun {

// The stages in the order in which encode() runs them; every one but the model may be absent.
struct TokenizerPipeline {
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const TokenDecoder> decoder;
  std::vector<AddedToken> added;  // as listed, ids not checked yet
  bool prefixes_space = false;    // a stage of tokenizer.json puts a space before the text
};

// Reads a tokenizer.json and sets `digest` to the hash of its bytes. Throws Error naming file and
// key.
TokenizerPipeline read_tokenizer_json(const std::string& path, std::string& digest);

// Reads an added token's object or plain string; `where` is used in messages.
AddedToken read_added_token(const Json& json, const std::string& where);

// What a tokenizer class of transformers is beside its vocab.json and merges.txt.
struct TokenizerClass {
  const char* name;        // without the suffix "Fast"
  const char* model_type;  // of config.json, used where no class is named
  const char* stages;      // JSON: normalizer, pre_tokenizer, decoder, as in a tokenizer.json
};

// Returns a class by its name (with or without "Fast") or by a model type, or nullptr.
const TokenizerClass* find_tokenizer_class(std::string_view name);
const TokenizerClass* find_model_type_class(std::string_view model_type);
// Returns the names that are known, for messages.
std::string known_tokenizer_classes();

// Makes the pipeline of a class. add_prefix_space is the option of tokenizer_config.json.
TokenizerPipeline make_class_pipeline(const TokenizerClass& known, const BpeFiles& files,
                                      bool add_prefix_space);

}  // namespace xrun
