#pragma once
// The model of a tokenizer.model, run by the sentencepiece library.

#include <memory>
#include <string>
#include <unordered_set>

#include "core/text/tokenizer/sentencepiece_file.h"
#include "core/text/tokenizer/token_decoder.h"
#include "core/text/tokenizer/token_model.h"

namespace xrun {

struct SentencePieceOptions {
  std::string where;  // the file's name, for messages
  // Pieces that text never becomes, though the file may say so: tokens of the format.
  std::unordered_set<std::string> special;
  // Whether a text that does not begin the input gets its leading space, too.
  bool prefix_everywhere = true;
};

// Makes the model. Offsets are bytes of the text before the library's own normalization; a byte
// token has its byte where the character stands in the text as it is, else the character.
// Throws Error if the bytes are no model that the library takes.
std::unique_ptr<const TokenModel> make_sentencepiece_model(std::string bytes,
                                                           const SentencePieceOptions& options);

// Makes the decoder: U+2581 becomes a space, the leading one nothing, byte tokens their text.
std::unique_ptr<const TokenDecoder> make_sentencepiece_decoder(const SentencePieceFile& file);

}  // namespace xrun
