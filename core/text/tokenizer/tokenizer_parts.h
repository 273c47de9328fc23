#pragma once
// The state of a Tokenizer.

#include <optional>
#include <string>

#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

// A special token by role.
struct TokenRole {
  std::optional<int32_t> id;
  std::string text;
};

struct Tokenizer::Parts {
  TokenizerPipeline stages;
  AddedTokens added;
  int64_t vocab_size = 0;
  TokenRole bos, eos, pad, unk;
  NamedTexts named_tokens, chat_templates;
  std::string digest;
  std::string notice;

  // Returns the spelling of an id of the vocabulary or of an added token, "" if there is none.
  std::string_view piece(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view piece) const;

  class Encoder;  // tokenizer_encode.cpp
  // Whether a stretch may be cut at such a border of the input and its parts be tokenised alone.
  bool cuts_at(Border border) const;
  BorderKinds borders() const;
};

// Reads a folder. Throws Error naming file and key.
std::unique_ptr<Tokenizer::Parts> load_tokenizer_parts(const std::filesystem::path& dir);

}  // namespace xrun
