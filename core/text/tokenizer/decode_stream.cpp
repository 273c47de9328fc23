#include "core/text/tokenizer/decode_stream.h"

#include <utility>

#include "core/base/error.h"
#include "core/text/tokenizer/tokenizer_parts.h"

namespace xrun {

namespace {

// Without a decoder there is nothing that would tell where words begin.
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
  const TokenDecoder* decoder = tokenizer.parts_->stages.decoder.get();
  first_ = decoder != nullptr ? decoder->start(DecoderInput::kTokens, text_)
                              : std::make_unique<SpacedStage>(text_);
}

DecodeStream::~DecodeStream() = default;

void DecodeStream::take(int32_t id) {
  const Tokenizer::Parts& parts = *tokenizer_.parts_;
  XRUN_CHECK(id >= 0, "token {} to decode is {}, wanted an id", count_, id);
  ++count_;
  const AddedToken* token = parts.added.find(id);
  if (token != nullptr && token->special && skip_special_) return;
  const std::string_view piece = token ? parts.added.decoded(*token) : parts.piece(id);
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
