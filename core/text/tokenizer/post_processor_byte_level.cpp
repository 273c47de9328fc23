// ByteLevel: with trim_offsets, the spaces at the ends of a token do not count as its bytes.

#include "core/text/tokenizer/offset_trim.h"
#include "core/text/tokenizer/post_processor.h"

namespace xrun {

namespace {

class ByteLevel : public PostProcessor {
 public:
  explicit ByteLevel(const ComponentSpec& spec)
      : trim_(spec.boolean("trim_offsets", true)),
        prefix_space_(spec.boolean("add_prefix_space", true)) {}
  void apply(Encoding& encoding, const PostContext& context) const override {
    if (trim_) trim_offsets(encoding, context, prefix_space_);
  }

 private:
  bool trim_;
  bool prefix_space_;
};

std::unique_ptr<const PostProcessor> make(const ComponentSpec& spec) {
  return std::make_unique<ByteLevel>(spec);
}

const bool kAdded = ComponentTable<PostProcessor>::add("ByteLevel", make);

}  // namespace

}  // namespace xrun
