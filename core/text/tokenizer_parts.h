#pragma once
// The state of a Tokenizer.

#include "core/text/tokenizer_pipeline.h"

#include <optional>
#include <string>

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
  std::string chat_template;
  std::string digest;

  // Returns the spelling of an id of the vocabulary or of an added token, "" if there is none.
  std::string_view piece(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view piece) const;

  // Appends the tokens of a stretch in which no token is looked for before normalising.
  void encode_section(AlignedText text, const SpecialRanges& special, Encoding& out) const;
  // Appends the tokens of normalised text without added tokens.
  void encode_plain(AlignedText text, Encoding& out) const;
};

// Reads a folder. Throws Error naming file and key.
std::unique_ptr<Tokenizer::Parts> load_tokenizer_parts(const std::filesystem::path& dir);

}  // namespace xrun
