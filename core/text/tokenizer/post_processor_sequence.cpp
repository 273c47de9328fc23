#include "core/text/tokenizer/post_processor.h"

namespace xrun {

namespace {

class Sequence : public PostProcessor {
 public:
  explicit Sequence(const ComponentSpec& spec)
      : parts_(ComponentTable<PostProcessor>::make_all(spec.list("processors"))) {}
  void apply(Encoding& encoding, const PostContext& context) const override {
    for (const auto& part : parts_) part->apply(encoding, context);
  }
  void leading(std::vector<int32_t>& ids) const override {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) (*part)->leading(ids);
  }
  void each_id(const std::function<void(int64_t id)>& check) const override {
    for (const auto& part : parts_) part->each_id(check);
  }

 private:
  std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

std::unique_ptr<const PostProcessor> make(const ComponentSpec& spec) {
  return std::make_unique<Sequence>(spec);
}

const bool kAdded = ComponentTable<PostProcessor>::add("Sequence", make);

}  // namespace

}  // namespace xrun
