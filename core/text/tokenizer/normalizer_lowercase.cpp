#include "core/text/tokenizer/character_filter.h"
#include "core/text/tokenizer/normalizer.h"
#include "core/text/unicode/unicode_sets.h"

namespace xrun {

namespace {

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText& text) const override { rewrite_characters(text, &write); }
  Border border_after(Border border) const override { return border; }

 private:
  static void write(uint32_t c, std::string& out) { append_lowercase(out, c); }
};

std::unique_ptr<const Normalizer> make(const ComponentSpec&) {
  return std::make_unique<Lowercase>();
}

const bool kAdded = ComponentTable<Normalizer>::add("Lowercase", make);

}  // namespace

}  // namespace xrun
