// Replace: every match of a pattern by a fixed content.

#include "core/text/tokenizer/text_pattern.h"
#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

class Replace : public TokenDecoder {
 public:
  explicit Replace(const ComponentSpec& spec)
      : pattern_(make_text_pattern(spec)), content_(spec.text("content")) {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return make_token_stage(input, next, [this](std::string_view token, size_t) {
      std::vector<Stretch> stretches;
      pattern_->find(token, stretches);
      std::string changed;
      for (const Stretch& s : stretches) {
        changed += s.is_match ? std::string_view(content_) : token.substr(s.begin, s.end - s.begin);
      }
      return changed;
    });
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  std::string content_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Replace>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Replace", make);

}  // namespace

}  // namespace xrun
