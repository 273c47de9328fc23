// WordPiece: a token that continues a word loses its prefix, any other one gets a space before it.

#include "core/text/tokenizer/text_cleanup.h"
#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

class WordPiece : public TokenDecoder {
 public:
  explicit WordPiece(const ComponentSpec& spec)
      : prefix_(spec.text("prefix")), cleanup_(spec.boolean("cleanup")) {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return make_token_stage(input, next, [this](std::string_view token, size_t index) {
      const bool continues = index > 0 && token.starts_with(prefix_);
      std::string changed(index > 0 && !continues ? " " : "");
      changed += continues ? token.substr(prefix_.size()) : token;
      return cleanup_ ? without_token_spaces(std::move(changed)) : changed;
    });
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<WordPiece>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("WordPiece", make);

}  // namespace

}  // namespace xrun
