// Fuse: all tokens become one.

#include "core/text/token_decoder.h"

namespace xrun {

namespace {

class Fuse : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string whole;
    for (const std::string& token : tokens) whole += token;
    tokens = {std::move(whole)};
  }
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec&) { return std::make_unique<Fuse>(); }

const bool kAdded = ComponentTable<TokenDecoder>::add("Fuse", make);

}  // namespace

}  // namespace xrun
