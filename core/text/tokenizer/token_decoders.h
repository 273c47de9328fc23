#pragma once
// Decoders of tokenizer.json: they turn the spellings of tokens back into text, token by token.

#include <string>
#include <string_view>
#include <utility>

#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

// The state of one decoder in one decoding. It takes spellings and passes on text as soon as that
// is certain, and never splits a character. Not thread-safe.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void push(std::string_view text) = 0;
  // Passes on the text that was held back. Nothing may be pushed afterwards.
  virtual void finish() = 0;
};

// The input of a stage: one token per push, or fragments that together are one token.
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

// Makes the decoder of a spec. Throws Error naming the path and the fault.
std::unique_ptr<const TokenDecoder> make_token_decoder(const ComponentSpec& spec);

// The decoders ByteLevel (byte_level.cpp) and Metaspace (metaspace.cpp).
std::unique_ptr<const TokenDecoder> make_byte_level_decoder(const ComponentSpec& spec);
std::unique_ptr<const TokenDecoder> make_metaspace_decoder(const ComponentSpec& spec);

// Returns the text with every occurrence of `from` replaced, from left to right; an empty `from`
// replaces nothing.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// Changes each token separately: change(token, index). Fragments are joined first.
template <class Change>
class TokenStage : public DecodeStage {
 public:
  TokenStage(DecoderInput input, DecodeStage& next, Change change)
      : input_(input), next_(next), change_(std::move(change)) {}
  void push(std::string_view text) override {
    if (input_ == DecoderInput::kFragments) {
      whole_ += text;
    } else {
      next_.push(change_(text, index_++));
    }
  }
  void finish() override {
    if (input_ == DecoderInput::kFragments) next_.push(change_(whole_, 0));
    next_.finish();
  }

 private:
  DecoderInput input_;
  DecodeStage& next_;
  Change change_;
  size_t index_ = 0;
  std::string whole_;
};

template <class Change>
std::unique_ptr<DecodeStage> make_token_stage(DecoderInput input, DecodeStage& next,
                                              Change change) {
  return std::make_unique<TokenStage<Change>>(input, next, std::move(change));
}

}  // namespace xrun
