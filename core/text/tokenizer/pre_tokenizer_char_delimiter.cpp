// CharDelimiterSplit: cuts at a character, which is removed.

#include "core/text/tokenizer/pre_tokenizer.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

class CharDelimiterSplit : public PreTokenizer {
 public:
  explicit CharDelimiterSplit(const ComponentSpec& spec)
      : delimiter_(make_literal_pattern(spec.character("delimiter"))) {}
  void apply(PieceList& list) const override {
    split_pieces(list, *delimiter_, SplitBehavior::kRemoved, false);
  }

 private:
  std::unique_ptr<const TextPattern> delimiter_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<CharDelimiterSplit>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("CharDelimiterSplit", make);

}  // namespace

}  // namespace xrun
