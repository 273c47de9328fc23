// ByteLevel: spellings in the byte alphabet become bytes; what is not UTF-8 becomes U+FFFD.

#include "core/base/utf8.h"
#include "core/text/byte_alphabet.h"
#include "core/text/token_decoder.h"

namespace xrun {

namespace {

class ByteLevel : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) {
      if (!append_unspelled(bytes, token)) bytes += token;  // not of the alphabet: as it is
    }
    tokens = {repair_utf8(bytes)};
  }
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec&) {
  return std::make_unique<ByteLevel>();
}

const bool kAdded = ComponentTable<TokenDecoder>::add("ByteLevel", make);

}  // namespace

}  // namespace xrun
