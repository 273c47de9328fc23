#include "core/text/normalizer.h"

namespace xrun {

namespace {

class Sequence : public Normalizer {
 public:
  explicit Sequence(const ComponentSpec& spec)
      : parts_(ComponentTable<Normalizer>::make_all(spec.list("normalizers"))) {}
  void apply(AlignedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

std::unique_ptr<const Normalizer> make(const ComponentSpec& spec) {
  return std::make_unique<Sequence>(spec);
}

const bool kAdded = ComponentTable<Normalizer>::add("Sequence", make);

}  // namespace

}  // namespace xrun
