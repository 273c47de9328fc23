#pragma once
// Decoders: how tokenizer.json turns the spellings of tokens back into text, token by token.

#include "core/text/tokenizer/tokenizer_component.h"

#include <string>
#include <string_view>

namespace xrun {

// One decoding on its way through one decoder. Takes spellings and hands on what is certain; what
// it hands on never splits a character. Not thread-safe.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void push(std::string_view text) = 0;
  // Hands on what was held back. Nothing is pushed afterwards.
  virtual void finish() = 0;
};

// What the pushes of a stage are: a token each, or all together one.
enum class DecoderInput { kTokens, kParts };

// Immutable, thread-safe. One file a type: token_decoder_*.cpp.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Begins a decoding whose result goes to `next`, which must outlive it.
  virtual std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const = 0;
  // Returns what the stage pushes.
  virtual DecoderInput output(DecoderInput input) const { return input; }
};

// A stage that changes each token by itself: change(token, index) gives what it becomes. Parts are
// put together first.
template <class Change>
class TokenStage : public DecodeStage {
 public:
  TokenStage(DecoderInput input, DecodeStage& next, Change change)
      : input_(input), next_(next), change_(std::move(change)) {}
  void push(std::string_view text) override {
    if (input_ == DecoderInput::kParts) {
      whole_ += text;
    } else {
      next_.push(change_(text, index_++));
    }
  }
  void finish() override {
    if (input_ == DecoderInput::kParts) next_.push(change_(whole_, 0));
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
