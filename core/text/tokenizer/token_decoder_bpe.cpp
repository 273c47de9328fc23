// BPEDecoder: the suffix that ends a word becomes a space, and nothing in the last token,
// so that a token is held until the next one.

#include "core/text/tokenizer/text_cleanup.h"
#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

class BpeStage : public DecodeStage {
 public:
  BpeStage(DecoderInput input, DecodeStage& next, const std::string& suffix)
      : input_(input), next_(next), suffix_(suffix) {}
  void push(std::string_view text) override {
    if (input_ == DecoderInput::kTokens) {
      if (has_token_) next_.push(replaced(token_, suffix_, " "));
      token_.clear();
    }
    token_ += text;
    has_token_ = true;
  }
  void finish() override {
    if (has_token_) next_.push(replaced(token_, suffix_, ""));
    next_.finish();
  }

 private:
  DecoderInput input_;
  DecodeStage& next_;
  const std::string& suffix_;
  std::string token_;
  bool has_token_ = false;
};

class BpeDecoder : public TokenDecoder {
 public:
  explicit BpeDecoder(const ComponentSpec& spec) : suffix_(spec.text("suffix")) {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return std::make_unique<BpeStage>(input, next, suffix_);
  }

 private:
  std::string suffix_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<BpeDecoder>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("BPEDecoder", make);

}  // namespace

}  // namespace xrun
