#pragma once
// What a token is made of, as the vocabulary spells it: bytes, also where they are part of a
// character.

#include <cstdint>
#include <string>

#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Immutable; any number of threads. The tokenizer must outlive it.
class TokenBytes {
 public:
  explicit TokenBytes(const Tokenizer& tokenizer);

  // Returns the bytes of an id behind other tokens (" the", "\xE6\x97", "<|im_end|>"); "" for an id
  // that no piece has. Throws nothing for any id.
  std::string of(int32_t id) const;

 private:
  const Tokenizer& tokenizer_;
  bool byte_level_;   // pieces are spelled in GPT-2's byte alphabet
  bool byte_tokens_;  // "<0x0A>" is a byte
};

}  // namespace xrun
