// BertPreTokenizer: cuts at spaces, which are removed, and around every punctuation character.

#include "core/text/tokenizer/pre_tokenizer.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/unicode_sets.h"

namespace xrun {

namespace {

bool is_space(uint32_t c) { return char_kind(c) == CharKind::kSpace; }

class Bert : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    split_pieces(list, *space_, SplitBehavior::kRemoved, false);
    split_pieces(list, *mark_, SplitBehavior::kIsolated, false);
  }
  Border border_after(Border border) const override {
    return border == Border::kSpace || border == Border::kLine ? Border::kPiece : border;
  }

 private:
  std::unique_ptr<const TextPattern> space_ = make_character_pattern(&is_space);
  std::unique_ptr<const TextPattern> mark_ = make_character_pattern(&is_punctuation);
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec&) { return std::make_unique<Bert>(); }

const bool kAdded = ComponentTable<PreTokenizer>::add("BertPreTokenizer", make);

}  // namespace

}  // namespace xrun
