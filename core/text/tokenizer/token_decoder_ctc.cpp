// CTC: a token that repeats is one, the padding goes away, the word delimiter becomes a space.

#include <optional>

#include "core/text/tokenizer/text_cleanup.h"
#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

struct CtcOptions {
  std::string pad;
  std::string delimiter;
  bool cleanup;
};

class CtcStage : public DecodeStage {
 public:
  CtcStage(DecoderInput input, DecodeStage& next, const CtcOptions& options)
      : input_(input), next_(next), options_(options) {}
  void push(std::string_view text) override {
    if (input_ == DecoderInput::kParts) {
      last_ = last_.value_or("").append(text);
    } else if (last_ != text) {
      last_ = text;
      hand_on(text);
    }
  }
  void finish() override {
    if (input_ == DecoderInput::kParts && last_) hand_on(*last_);
    next_.finish();
  }

 private:
  void hand_on(std::string_view token) {
    std::string text = replaced(token, options_.pad, "");
    // The delimiter is one of the artifacts that cleanup removes, and stays without it.
    if (options_.cleanup) {
      text = replaced(without_token_spaces(std::move(text)), options_.delimiter, " ");
    }
    if (!text.empty()) next_.push(text);
  }

  DecoderInput input_;
  DecodeStage& next_;
  const CtcOptions& options_;
  std::optional<std::string> last_;  // the last token, or all parts
};

class Ctc : public TokenDecoder {
 public:
  explicit Ctc(const ComponentSpec& spec)
      : options_{spec.text("pad_token"), spec.text("word_delimiter_token"),
                 spec.boolean("cleanup")} {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return std::make_unique<CtcStage>(input, next, options_);
  }

 private:
  CtcOptions options_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Ctc>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("CTC", make);

}  // namespace

}  // namespace xrun
