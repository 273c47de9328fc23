// Prepend: the given string before a text that is not empty. It stands for the first character of
// the text, as in Hugging Face's alignments.

#include "core/text/tokenizer/normalizer.h"

namespace xrun {

namespace {

class Prepend : public Normalizer {
 public:
  explicit Prepend(const ComponentSpec& spec) : prefix_(spec.text("prepend")) {}
  void apply(AlignedText& text) const override {
    if (text.size() == 0) return;
    AlignedTextBuilder builder(text);
    builder.insert(prefix_, text.character_origin(0));
    builder.copy(0, text.size());
    text = builder.finish();
  }
  void apply_rest(AlignedText&) const override {}
  Border border_after(Border border) const override { return border; }

 private:
  std::string prefix_;
};

std::unique_ptr<const Normalizer> make(const ComponentSpec& spec) {
  return std::make_unique<Prepend>(spec);
}

const bool kAdded = ComponentTable<Normalizer>::add("Prepend", make);

}  // namespace

}  // namespace xrun
