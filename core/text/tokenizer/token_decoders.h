#pragma once
// Decoders of tokenizer.json: they turn the spellings of tokens back into text, token by token.

#include <string>
#include <string_view>

#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

// The state of one decoding in one decoder. Takes spellings and passes on text as soon as it is
// certain; it never splits a character. Not thread-safe.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void push(std::string_view text) = 0;
  // Passes on the text that was held back. Nothing may be pushed afterwards.
  virtual void finish() = 0;
};

// A stage is pushed one token at a time, or fragments that together are one token.
enum class DecoderInput { kTokens, kFragments };

// Immutable, thread-safe.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Begins a decoding whose result goes to `next`, which must outlive it.
  virtual std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const = 0;
  // Returns what the stage pushes.
  virtual DecoderInput output(DecoderInput input) const { return input; }
};

// Makes the decoder of a spec. Throws Error naming the path and what is wrong.
std::unique_ptr<const TokenDecoder> make_token_decoder(const ComponentSpec& spec);

// Returns the text with every occurrence of `from` replaced, from left to right; an empty `from`
// replaces nothing.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

}  // namespace xrun
