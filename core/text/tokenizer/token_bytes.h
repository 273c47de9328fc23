#pragma once
// The bytes of a single token, which may be part of a character.

#include <cstdint>
#include <string>

#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Immutable, thread-safe. The tokenizer must outlive it.
class TokenBytes {
 public:
  explicit TokenBytes(const Tokenizer& tokenizer);

  // Returns the bytes of an id after other tokens (" the", "\xE6\x97", "<|im_end|>"); "" for an id
  // without a piece. Never throws.
  std::string of(int32_t id) const;

 private:
  const Tokenizer& tokenizer_;
  bool byte_level_;   // pieces are spelled in GPT-2's byte alphabet
  bool byte_tokens_;  // "<0x0A>" spells a byte
};

}  // namespace xrun
