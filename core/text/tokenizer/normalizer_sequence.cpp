#include "core/text/tokenizer/normalizer.h"

namespace xrun {

namespace {

class Sequence : public Normalizer {
 public:
  explicit Sequence(const ComponentSpec& spec)
      : parts_(ComponentTable<Normalizer>::make_all(spec.list("normalizers"))) {
    for (const ComponentSpec& part : spec.list("normalizers")) places_.push_back(part.where());
  }
  void apply(AlignedText& text) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      run_stage(places_[i], [&] { parts_[i]->apply(text); });
    }
  }
  void apply_rest(AlignedText& text) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      run_stage(places_[i], [&] { parts_[i]->apply_rest(text); });
    }
  }
  Border border_after(Border border) const override {
    for (const auto& part : parts_) border = part->border_after(border);
    return border;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
  std::vector<std::string> places_;  // of the parts in their file
};

std::unique_ptr<const Normalizer> make(const ComponentSpec& spec) {
  return std::make_unique<Sequence>(spec);
}

const bool kAdded = ComponentTable<Normalizer>::add("Sequence", make);

}  // namespace

}  // namespace xrun
