#include "core/text/pre_tokenizer.h"

namespace xrun {

namespace {

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(const ComponentSpec& spec)
      : parts_(ComponentTable<PreTokenizer>::make_all(spec.list("pretokenizers"))) {}
  void apply(PieceList& list) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      parts_[i]->apply(list);
      // Pieces keep the text's own bytes as long as nothing but the model follows ByteLevel.
      if (parts_[i]->maps_bytes() && i + 1 < parts_.size()) spell_pieces(list);
    }
  }
  bool maps_bytes() const override { return !parts_.empty() && parts_.back()->maps_bytes(); }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<Sequence>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("Sequence", make);

}  // namespace

}  // namespace xrun
