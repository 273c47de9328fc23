// BertProcessing and RobertaProcessing: one token before the text and one after it.
// RobertaProcessing trims offsets as ByteLevel does.

#include "core/text/tokenizer/offset_trim.h"
#include "core/text/tokenizer/surrounding_tokens.h"

namespace xrun {

namespace {

class Bert : public SurroundingProcessor {
 public:
  explicit Bert(const ComponentSpec& spec) : SurroundingProcessor(read_cls_and_sep(spec)) {}
};

class Roberta : public Bert {
 public:
  explicit Roberta(const ComponentSpec& spec)
      : Bert(spec),
        trim_(spec.boolean("trim_offsets")),
        prefix_space_(spec.boolean("add_prefix_space")) {}
  void apply(Encoding& encoding, const PostContext& context) const override {
    if (trim_) trim_offsets(encoding, context, prefix_space_);
    Bert::apply(encoding, context);
  }

 private:
  bool trim_;
  bool prefix_space_;
};

template <class Component>
std::unique_ptr<const PostProcessor> make(const ComponentSpec& spec) {
  return std::make_unique<Component>(spec);
}

const bool kAdded[] = {ComponentTable<PostProcessor>::add("BertProcessing", make<Bert>),
                       ComponentTable<PostProcessor>::add("RobertaProcessing", make<Roberta>)};

}  // namespace

}  // namespace xrun
