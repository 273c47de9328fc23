// With h = (keys, values, hidden states) of the prefix and L = sum_m L_m(h, weights) over the
// micro-batches:  dL/dweights = sum_m dL_m/dweights + (dh/dweights)^T sum_m dL_m/dh.

#include "core/train/batches/held_prefix.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/model/model.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/hf_config.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/batches/unit.h"

namespace xrun {

// Dropout would draw one mask for all sequences, as for any folded prefix. The balance loss of
// experts needs the routes of the prefix in the micro-batch that computes it. GPUs are untested.
std::string HeldPrefix::obstacle(const ModelConfig& config, const AdapterOptions* adapter,
                                 c10::Device device) {
  if (!device.is_cpu()) return "prefixes are held on the CPU only";
  if (config.moe.experts > 0) return "the model is a mixture of experts";
  if (adapter != nullptr && adapter->dropout > 0) return "the adapter has dropout";
  return "";
}

std::string HeldPrefix::obstacle(const Model& model) const {
  const ModelConfig& config = model.config();
  const AdapterOptions* const adapter = model.adapter() ? &model.adapter()->options : nullptr;
  std::string found = obstacle(config, adapter, model.device());
  const bool equal = config.positions != Positions::kRotary ||
                     rope_frequency_class(config.rope, prefix_.shortest) ==
                         rope_frequency_class(config.rope, prefix_.longest);
  if (found.empty() && !equal) found = "their sequences have different rotary frequencies";
  return found;
}

bool HeldPrefix::serves(const Model& model) const {
  return model.trainable() && obstacle(model).empty();
}

HeldPrefix::PrefixLeaves HeldPrefix::leaves(Model& model) {
  // One forward for each model, at its first use.
  for (const PrefixForward& known : forwards_) {
    if (known.model == &model) return known.leaves;
  }
  PackInput input;
  input.tokens = int64_tensor(prefix_.tokens);
  input.position_ids = int64_tensor(prefix_.position_ids);
  input.cu_seqlens = {0, static_cast<int32_t>(prefix_.size())};
  input.rope_length = {static_cast<int32_t>(prefix_.longest)};  // serves(): any length will do
  std::vector<HeldKeys> computed;
  const at::Tensor hidden = model.forward(input, {.keys = &computed});
  PrefixForward made{.model = &model, .leaves = {}, .outputs = {}, .inputs = {}, .sums = {}};
  // Cuts the graph: micro-batches add to the leaf's gradient, backward() carries it on to the
  // output.
  const auto leaf = [&](const at::Tensor& output) {
    made.outputs.push_back(output);
    return made.inputs.emplace_back(output.detach().set_requires_grad(output.requires_grad()));
  };
  auto keys = std::make_shared<std::vector<HeldKeys>>();
  for (const HeldKeys& layer : computed) keys->push_back({leaf(layer.k), leaf(layer.v)});
  made.leaves = {std::move(keys), leaf(hidden)};
  made.sums.resize(made.inputs.size());
  return forwards_.emplace_back(std::move(made)).leaves;
}

void HeldPrefix::collect() {
  const at::NoGradGuard no_grad;
  for (PrefixForward& forward : forwards_) {
    for (size_t i = 0; i < forward.inputs.size(); ++i) {
      at::Tensor& gradient = forward.inputs[i].mutable_grad();
      if (!gradient.defined()) continue;
      at::Tensor& sum = forward.sums[i];
      if (sum.defined()) {
        sum.add_(gradient);
      } else {
        sum = gradient.to(at::kFloat);  // a sum in bf16 would lose small gradients
      }
      gradient.reset();
    }
  }
}

void HeldPrefix::backward() {
  collect();
  const std::vector<PrefixForward> done = std::move(forwards_);
  forwards_.clear();
  for (const PrefixForward& forward : done) {
    std::vector<at::Tensor> outputs, gradients;
    for (size_t i = 0; i < forward.sums.size(); ++i) {
      if (!forward.sums[i].defined()) continue;  // no loss depends on it
      outputs.push_back(forward.outputs[i]);
      gradients.push_back(forward.sums[i].to(forward.outputs[i].scalar_type()));
    }
    // One call, since the outputs share a graph, which a backward frees.
    if (!outputs.empty()) torch::autograd::backward(outputs, gradients);
  }
}

std::vector<std::shared_ptr<HeldPrefix>> held_prefixes(
    const std::vector<std::shared_ptr<MicroBatch>>& micros) {
  std::vector<std::shared_ptr<HeldPrefix>> held;
  if (micros.empty()) return held;
  std::vector<const PackedBatch*> packs;
  for (const auto& micro : micros) packs.push_back(&micro->pack());
  for (SharedPrefix& prefix : shared_prefixes(packs, micros.front()->info().fold)) {
    held.push_back(std::make_shared<HeldPrefix>(std::move(prefix)));
  }
  return held;
}

int64_t computed_tokens(const std::vector<std::shared_ptr<MicroBatch>>& micros,
                        const Model& model) {
  int64_t tokens = 0;
  size_t next = 0;
  for (const auto& prefix : held_prefixes(micros)) {
    if (!prefix->serves(model)) continue;
    for (; next < prefix->begin(); ++next) tokens += micros[next]->computed(model).token_count();
    tokens += prefix->prefix().together;
    next = prefix->end();
  }
  for (; next < micros.size(); ++next) tokens += micros[next]->computed(model).token_count();
  return tokens;
}

}  // namespace xrun
