// Digits: cuts numbers off, in runs or digit by digit.

#include "core/text/tokenizer/pre_tokenizer.h"
#include "core/text/unicode/unicode.h"

namespace xrun {

namespace {

class Digits : public PreTokenizer {
 public:
  explicit Digits(const ComponentSpec& spec)
      : behavior_(spec.boolean("individual_digits", false) ? SplitBehavior::kIsolated
                                                           : SplitBehavior::kContiguous),
        digit_(make_character_pattern(&is_numeric)) {}
  void apply(PieceList& list) const override { split_pieces(list, *digit_, behavior_, false); }
  Border border_after(Border border) const override { return border; }

 private:
  SplitBehavior behavior_;
  std::unique_ptr<const TextPattern> digit_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<Digits>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("Digits", make);

}  // namespace

}  // namespace xrun
