// Punctuation: cuts at every punctuation character, as "behavior" says (Isolated by default).

#include "core/text/tokenizer/pre_tokenizer.h"
#include "core/text/unicode/unicode_sets.h"

namespace xrun {

namespace {

class Punctuation : public PreTokenizer {
 public:
  explicit Punctuation(const ComponentSpec& spec)
      : mark_(make_character_pattern(&is_punctuation)),
        behavior_(spec.has("behavior") ? read_behavior(spec) : SplitBehavior::kIsolated) {}
  void apply(PieceList& list) const override { split_pieces(list, *mark_, behavior_, false); }
  Border border_after(Border border) const override { return border; }

 private:
  std::unique_ptr<const TextPattern> mark_;
  SplitBehavior behavior_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<Punctuation>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("Punctuation", make);

}  // namespace

}  // namespace xrun
