// Fuse: all tokens become one.

#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

class FuseStage : public DecodeStage {
 public:
  explicit FuseStage(DecodeStage& next) : next_(next) {}
  void push(std::string_view text) override { next_.push(text); }
  void finish() override { next_.finish(); }

 private:
  DecodeStage& next_;
};

class Fuse : public TokenDecoder {
 public:
  std::unique_ptr<DecodeStage> start(DecoderInput, DecodeStage& next) const override {
    return std::make_unique<FuseStage>(next);
  }
  DecoderInput output(DecoderInput) const override { return DecoderInput::kParts; }
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec&) {
  return std::make_unique<Fuse>();
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Fuse", make);

}  // namespace

}  // namespace xrun
