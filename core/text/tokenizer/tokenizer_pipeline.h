#pragma once
// The stages of a tokenizer, and the state of a Tokenizer built from them.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/text/tokenizer/added_tokens.h"
#include "core/text/tokenizer/normalizers.h"
#include "core/text/tokenizer/post_processors.h"
#include "core/text/tokenizer/pre_tokenizers.h"
#include "core/text/tokenizer/token_decoders.h"
#include "core/text/tokenizer/token_model.h"

namespace xrun {

// The stages in the order in which encode() runs them; any but the model may be absent.
struct TokenizerPipeline {
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const TokenDecoder> decoder;
  std::vector<AddedToken> added;  // as listed, ids not checked yet
  bool prefixes_space = false;    // a stage of tokenizer.json puts a space before the text
  // Of a tokenizer.model, which has no post-processor: the named token is put before or after a
  // text. Its id may be known only once all added tokens are.
  bool adds_bos = false, adds_eos = false;
};

// Reads a tokenizer.json and sets `digest` to the hash of its bytes. Throws Error naming file and
// key.
TokenizerPipeline read_tokenizer_json(const std::string& path, std::string& digest);

struct Tokenizer::State {
  struct Role {
    std::optional<int32_t> id;
    std::string text;
  };

  TokenizerPipeline stages;
  AddedTokens added;
  int64_t vocab_size = 0;
  Role bos, eos, pad, unk;
  NamedTexts named_tokens, chat_templates;
  std::string digest;
  std::string notice;

  // Returns the spelling of an id of the vocabulary or of an added token, "" if there is none.
  std::string_view piece(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view piece) const;

  class Encoder;  // tokenizer_encode.cpp
  // Returns the kinds of split points at which both sides may be tokenised alone.
  SplitKinds safe_splits() const;
};

// Reads a folder. Throws Error naming file and key.
std::unique_ptr<Tokenizer::State> load_tokenizer_state(const std::filesystem::path& dir);

}  // namespace xrun
