// ByteLevel: every byte becomes its character of the byte alphabet.

#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/normalizer.h"

namespace xrun {

namespace {

class ByteLevel : public Normalizer {
 public:
  void apply(AlignedText& text) const override { text = spelled_text(text); }
};

std::unique_ptr<const Normalizer> make(const ComponentSpec&) {
  return std::make_unique<ByteLevel>();
}

const bool kAdded = ComponentTable<Normalizer>::add("ByteLevel", make);

}  // namespace

}  // namespace xrun
