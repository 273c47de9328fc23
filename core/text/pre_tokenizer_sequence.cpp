#include "core/text/pre_tokenizer.h"

namespace xrun {

namespace {

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(const ComponentSpec& spec)
      : parts_(ComponentTable<PreTokenizer>::make_all(spec.list("pretokenizers"))) {
    // Our pieces keep the text's own bytes; what follows ByteLevel would have to see its alphabet.
    for (size_t i = 0; i + 1 < parts_.size(); ++i) {
      XRUN_CHECK(!parts_[i]->maps_bytes(),
                 "{}.pretokenizers[{}]: ByteLevel must be the last one of a Sequence", spec.where(),
                 i);
    }
  }
  void apply(PieceList& list) const override {
    for (const auto& part : parts_) part->apply(list);
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
