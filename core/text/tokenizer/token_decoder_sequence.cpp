#include "core/text/tokenizer/token_decoder.h"

namespace xrun {

namespace {

class SequenceStage : public DecodeStage {
 public:
  // `stages` from the last one to the first one, each made for the one before it.
  SequenceStage(std::vector<std::unique_ptr<DecodeStage>> stages, DecodeStage& next)
      : stages_(std::move(stages)), first_(stages_.empty() ? next : *stages_.back()) {}
  void push(std::string_view text) override { first_.push(text); }
  void finish() override { first_.finish(); }

 private:
  std::vector<std::unique_ptr<DecodeStage>> stages_;
  DecodeStage& first_;
};

class Sequence : public TokenDecoder {
 public:
  explicit Sequence(const ComponentSpec& spec)
      : parts_(ComponentTable<TokenDecoder>::make_all(spec.list("decoders"))) {}

  std::unique_ptr<DecodeStage> start(DecoderInput input, DecodeStage& next) const override {
    std::vector<DecoderInput> inputs;
    for (const auto& part : parts_) {
      inputs.push_back(input);
      input = part->output(input);
    }
    std::vector<std::unique_ptr<DecodeStage>> stages;
    for (size_t i = parts_.size(); i-- > 0;) {
      stages.push_back(parts_[i]->start(inputs[i], stages.empty() ? next : *stages.back()));
    }
    return std::make_unique<SequenceStage>(std::move(stages), next);
  }
  DecoderInput output(DecoderInput input) const override {
    for (const auto& part : parts_) input = part->output(input);
    return input;
  }

 private:
  std::vector<std::unique_ptr<const TokenDecoder>> parts_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Sequence>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Sequence", make);

}  // namespace

}  // namespace xrun
