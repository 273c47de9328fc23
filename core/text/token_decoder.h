#pragma once
// Decoders: how tokenizer.json turns the spellings of tokens back into text.

#include "core/text/tokenizer_component.h"

#include <string>
#include <vector>

namespace xrun {

// Immutable, thread-safe. One file a type: token_decoder_*.cpp.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Changes spellings, joins or splits them; the text is what they make up in the end.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

}  // namespace xrun
