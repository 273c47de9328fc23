#pragma once
// A prefix that several micro-batches of a step share, computed once for all of them (arXiv
// 2606.01143).

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "core/model/ops/attention.h"
#include "core/prefix/shared_prefix.h"

namespace xrun {

class MicroBatch;
class Model;
struct AdapterOptions;
struct ModelConfig;

// The keys, values and hidden states of a prefix as leaves: each micro-batch reads them and adds to
// their gradients, and one backward through the prefix follows. Meanwhile the prefix keeps only
// those and the inputs of its blocks, which run again in the backward. Not thread-safe.
class HeldPrefix {
 public:
  explicit HeldPrefix(SharedPrefix prefix) : prefix_(std::move(prefix)) {}

  size_t begin() const { return prefix_.begin; }  // of its micro-batches in the step
  size_t end() const { return prefix_.end; }
  const SharedPrefix& prefix() const { return prefix_; }

  // Returns why no prefix is held for such a model: "" on a CPU without experts and dropout.
  static std::string obstacle(const ModelConfig& config, const AdapterOptions* adapter,
                              c10::Device device);
  // Returns true if a model uses the held prefix: it has no obstacle, is trained, and all sequences
  // have equal rotary frequencies. Another model computes the prefix with every micro-batch.
  bool serves(const Model& model) const;
  // Returns why a trained model does not use it; "" if it does.
  std::string obstacle(const Model& model) const;

  // The leaves of one model.
  struct PrefixLeaves {
    std::shared_ptr<const std::vector<HeldKeys>> keys;  // of every layer
    at::Tensor hidden;                                  // [C, D]
  };
  // Returns the leaves; computes them at the first call, without a graph if gradients are disabled.
  // Requires serves(model).
  PrefixLeaves leaves(Model& model);

  // Adds the gradients of one micro-batch to the fp32 sums.
  void collect();
  // Runs the backward through the prefix with the sums of all micro-batches. Frees everything.
  void backward();

 private:
  struct PrefixForward {
    const Model* model;
    PrefixLeaves leaves;
    std::vector<at::Tensor> outputs;  // of the prefix's forward
    std::vector<at::Tensor> inputs;   // the leaves that the micro-batches read
    std::vector<at::Tensor> sums;     // gradients of the leaves
  };
  SharedPrefix prefix_;
  std::vector<PrefixForward> forwards_;
};

// Returns the prefixes that are held over a step of these micro-batches.
std::vector<std::shared_ptr<HeldPrefix>> held_prefixes(
    const std::vector<std::shared_ptr<MicroBatch>>& micros);

// Returns the number of tokens that a step of these micro-batches computes.
int64_t computed_tokens(const std::vector<std::shared_ptr<MicroBatch>>& micros, const Model& model);

}  // namespace xrun
