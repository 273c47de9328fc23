// ByteFallback: a run of tokens <0x00> to <0xFF> becomes its text; a run that is not UTF-8 becomes
// one U+FFFD a token. So nothing of a run is certain before its end.

#include "core/base/utf8.h"
#include "core/text/tokenizer/byte_token.h"
#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

class ByteStage : public DecodeStage {
 public:
  ByteStage(DecoderInput input, DecodeStage& next) : input_(input), next_(next) {}
  void push(std::string_view text) override {
    if (input_ == DecoderInput::kParts) {
      whole_ += text;
    } else {
      take(text);
    }
  }
  void finish() override {
    if (input_ == DecoderInput::kParts) take(whole_);
    flush();
    next_.finish();
  }

 private:
  void take(std::string_view token) {
    const int byte = spelled_byte(token);
    if (byte >= 0) {
      run_.push_back(char(byte));
      return;
    }
    flush();
    next_.push(token);
  }
  void flush() {
    if (is_valid_utf8(run_)) {
      if (!run_.empty()) next_.push(run_);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) next_.push("\uFFFD");
    }
    run_.clear();
  }

  DecoderInput input_;
  DecodeStage& next_;
  std::string run_;
  std::string whole_;
};

class ByteFallback : public TokenDecoder {
 public:
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return std::make_unique<ByteStage>(input, next);
  }
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec&) {
  return std::make_unique<ByteFallback>();
}

const bool kAdded = ComponentTable<TokenDecoder>::add("ByteFallback", make);

}  // namespace

}  // namespace xrun
