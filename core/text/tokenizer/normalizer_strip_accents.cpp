// StripAccents: combining marks are removed. Only marks of their own: an NFD goes before it.

#include "core/base/utf8.h"
#include "core/text/tokenizer/character_filter.h"
#include "core/text/tokenizer/normalizer.h"
#include "core/text/unicode/unicode_sets.h"

namespace xrun {

namespace {

class StripAccents : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    rewrite_characters(text, [](uint32_t c, std::string& out) {
      if (!is_accent(c)) append_utf8(out, c);
    });
  }
  Border border_after(Border border) const override { return border; }
};

std::unique_ptr<const Normalizer> make(const ComponentSpec&) {
  return std::make_unique<StripAccents>();
}

const bool kAdded = ComponentTable<Normalizer>::add("StripAccents", make);

}  // namespace

}  // namespace xrun
