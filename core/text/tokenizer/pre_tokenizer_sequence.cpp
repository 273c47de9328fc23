#include "core/text/tokenizer/pre_tokenizer.h"

namespace xrun {

namespace {

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(const ComponentSpec& spec)
      : parts_(ComponentTable<PreTokenizer>::make_all(spec.list("pretokenizers"))) {
    for (const ComponentSpec& part : spec.list("pretokenizers")) places_.push_back(part.where());
  }
  void apply(PieceList& list) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      run_stage(places_[i], [&] {
        parts_[i]->apply(list);
        // Pieces keep the text's own bytes as long as nothing but the model follows ByteLevel.
        if (parts_[i]->maps_bytes() && i + 1 < parts_.size()) spell_pieces(list);
      });
    }
  }
  // What one part has cut the others cannot join; spelled bytes have no spaces.
  Border border_after(Border border) const override {
    for (size_t i = 0; i < parts_.size() && border != Border::kPiece; ++i) {
      if (i > 0 && parts_[i - 1]->maps_bytes()) return Border::kNone;
      border = parts_[i]->border_after(border);
    }
    return border;
  }
  bool maps_bytes() const override { return !parts_.empty() && parts_.back()->maps_bytes(); }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
  std::vector<std::string> places_;  // of the parts in their file
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<Sequence>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("Sequence", make);

}  // namespace

}  // namespace xrun
