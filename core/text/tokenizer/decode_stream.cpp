// Skips special tokens and feeds the spellings of the others to the decoder.

#include "core/text/tokenizer/decode_stream.h"

#include <utility>

#include "core/base/error.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

// Without a decoder nothing marks the start of a word: tokens are separated by spaces.
class SpacedStage : public DecodeStage {
 public:
  explicit SpacedStage(DecodeStage& next) : next_(next) {}
  void push(std::string_view text) override {
    if (has_token_) next_.push(" ");
    has_token_ = true;
    next_.push(text);
  }
  void finish() override { next_.finish(); }

 private:
  DecodeStage& next_;
  bool has_token_ = false;
};

}  // namespace

DecodeStream::DecodeStream(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special) {
  const TokenDecoder* decoder = tokenizer.state_->stages.decoder.get();
  first_ = decoder != nullptr ? decoder->start(DecoderInput::kTokens, text_)
                              : std::make_unique<SpacedStage>(text_);
}

DecodeStream::~DecodeStream() = default;

void DecodeStream::take(int32_t id) {
  const Tokenizer::State& state = *tokenizer_.state_;
  XRUN_CHECK(id >= 0, "token {} to decode is {}, wanted an id", count_, id);
  ++count_;
  const AddedToken* token = state.added.find(id);
  if (token != nullptr && token->special && skip_special_) return;
  // An id beyond the vocabulary decodes to nothing: an embedding may have more rows than the
  // vocabulary.
  const std::string_view piece = token ? state.added.decoded(*token) : state.piece(id);
  if (!piece.empty()) first_->push(piece);
}

std::string DecodeStream::push(int32_t id) {
  take(id);
  return std::exchange(text_.all, "");
}

std::string DecodeStream::finish() {
  first_->finish();
  return std::exchange(text_.all, "");
}

}  // namespace xrun
