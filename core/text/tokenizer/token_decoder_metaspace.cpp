// Metaspace: the mark becomes a space, and nothing in the first token if it was put there.

#include "core/text/tokenizer/metaspace.h"
#include "core/text/tokenizer/text_cleanup.h"
#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

class Metaspace : public TokenDecoder {
 public:
  explicit Metaspace(const ComponentSpec& spec) : options_(read_metaspace(spec)) {}
  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    return make_token_stage(input, next, [this](std::string_view token, size_t index) {
      const bool prefixed = index == 0 && options_.scheme != PrependScheme::kNever;
      return replaced(token, options_.replacement, prefixed ? "" : " ");
    });
  }

 private:
  MetaspaceOptions options_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Metaspace>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Metaspace", make);

}  // namespace

}  // namespace xrun
