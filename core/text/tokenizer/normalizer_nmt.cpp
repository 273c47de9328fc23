// Nmt: controls are removed, separators and some invisible characters become spaces, as the
// rule "nmt" of SentencePiece has it.

#include "core/base/utf8.h"
#include "core/text/tokenizer/character_filter.h"
#include "core/text/tokenizer/normalizer.h"

namespace xrun {

namespace {

bool is_removed(uint32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
         c == 0x8F || c == 0x9F;
}

bool is_spaced(uint32_t c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

class Nmt : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    rewrite_characters(text, [](uint32_t c, std::string& out) {
      if (!is_removed(c)) append_utf8(out, is_spaced(c) ? U' ' : c);
    });
  }
  // Line feeds and U+2581 become spaces.
  Border border_after(Border border) const override {
    return border == Border::kSpace ? border : Border::kNone;
  }
};

std::unique_ptr<const Normalizer> make(const ComponentSpec&) { return std::make_unique<Nmt>(); }

const bool kAdded = ComponentTable<Normalizer>::add("Nmt", make);

}  // namespace

}  // namespace xrun
