#pragma once
// The bytes of tokens: how the pieces of a tokenizer spell a text, and the bytes of a single token,
// which may end within a character.

#include <cstdint>
#include <string>

#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// A space that a tokenizer puts before a text.
enum class PrefixSpace : uint8_t {
  kNone,
  kAlways,     // " a" gets a second one
  kIfMissing,  // " a" and "a" give the same tokens
};

// The stretches of a text that get the space: the first one, those between added tokens that match
// the input, or those between any added tokens.
enum class PrefixScope : uint8_t { kText, kSections, kStretches };

struct TextSpelling {
  // Concatenated, the bytes of the pieces are the UTF-8 bytes of the text, except for a space
  // before it and for U+2581 in the text itself. False if a stage changes or drops characters.
  bool exact = true;
  bool byte_level = false;    // pieces are spelled in GPT-2's byte alphabet
  bool marks_spaces = false;  // U+2581 is a space
  bool byte_tokens = false;   // "<0x0A>" is a byte
  PrefixSpace prefix = PrefixSpace::kNone;
  PrefixScope scope = PrefixScope::kText;

  // Records that a stage puts a space before the stretches of `where`.
  void add_prefix(PrefixSpace space, PrefixScope where) {
    prefix = space;
    scope = where;
  }
};

// Returns the spelling by the tokenizer's stages.
TextSpelling text_spelling(const Tokenizer& tokenizer);

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
