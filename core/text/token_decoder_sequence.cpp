#include "core/text/token_decoder.h"

namespace xrun {

namespace {

class Sequence : public TokenDecoder {
 public:
  explicit Sequence(const ComponentSpec& spec)
      : parts_(ComponentTable<TokenDecoder>::make_all(spec.list("decoders"))) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (const auto& part : parts_) part->apply(tokens);
  }

 private:
  std::vector<std::unique_ptr<const TokenDecoder>> parts_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Sequence>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Sequence", make);

}  // namespace

}  // namespace xrun
