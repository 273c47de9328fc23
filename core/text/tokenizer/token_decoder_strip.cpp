// Strip: takes a character off the ends of every token, a limited number of times.

#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

// Parts of one token, of which only the beginning is stripped.
class FrontStage : public DecodeStage {
 public:
  FrontStage(DecodeStage& next, const std::string& content, int64_t count)
      : next_(next), content_(content), left_(count) {}
  void push(std::string_view text) override {
    for (; left_ > 0 && text.starts_with(content_); --left_) text.remove_prefix(content_.size());
    if (text.empty()) return;
    left_ = 0;
    next_.push(text);
  }
  void finish() override { next_.finish(); }

 private:
  DecodeStage& next_;
  const std::string& content_;
  int64_t left_;  // how often it may still be taken off
};

class Strip : public TokenDecoder {
 public:
  explicit Strip(const ComponentSpec& spec)
      : content_(spec.character("content")),
        start_(spec.integer("start")),
        stop_(spec.integer("stop")) {
    XRUN_CHECK(start_ >= 0 && stop_ >= 0, "{}: start and stop must not be negative", spec.where());
  }
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    if (input == DecoderInput::kParts && stop_ == 0) {
      return std::make_unique<FrontStage>(next, content_, start_);
    }
    return make_token_stage(input, next, [this](std::string_view token, size_t) {
      for (int64_t i = 0; i < start_ && token.starts_with(content_); ++i) {
        token.remove_prefix(content_.size());
      }
      for (int64_t i = 0; i < stop_ && token.ends_with(content_); ++i) {
        token.remove_suffix(content_.size());
      }
      return std::string(token);
    });
  }

 private:
  std::string content_;
  int64_t start_;
  int64_t stop_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Strip>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Strip", make);

}  // namespace

}  // namespace xrun
