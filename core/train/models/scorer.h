#pragma once
// A value head: one number per sequence from its last hidden state.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "core/train/models/saveable.h"

namespace xrun {

class Batch;
class Policy;
class View;

// score(sequence) = w . hidden state of its last token after the last norm, with w [1, D] fp32 and
// zero at the start, so every score is 0 at step 0. Trains the policy's weights and w; the
// vocabulary projection is not used. Held through shared_ptr. Not thread-safe.
class Scorer : public Trainable, public Saveable {
 public:
  explicit Scorer(std::shared_ptr<Policy> policy);

  const std::shared_ptr<Policy>& policy() const { return policy_; }

  // Returns [n] float32 in the view's order, with its graph in gradient mode. One forward per
  // micro-batch, shared with the policy's log-probs.
  at::Tensor score(const View& view);
  at::Tensor score(Batch& batch);  // all micro-batches, without gradient, in batch order

  // The policy's parameters, then "score.weight".
  std::vector<Parameter>& parameters() override;
  bool loaded() const override;
  at::Tensor held_master(size_t parameter, int64_t begin, int64_t size) override;
  bool holds_ranges(size_t parameter) override;
  void count_update() override;
  void weights_averaged(bool averaged) override;

  // The policy's tensors, ranges and state with those of the head, which every rank has whole.
  std::vector<NamedTensor> tensors() const override;
  std::vector<TensorRange> ranges() const override;
  Json state() const override;
  void restore(const TensorSource& tensor, const Json& state) override;

  // Writes a sequence classifier of one label (core/model/weights/export.h).
  void export_to(const std::filesystem::path& out);

 private:
  at::Tensor& weight();            // loads the policy's weights at the first call
  bool is_head(size_t parameter);  // all others are the policy's

  std::shared_ptr<Policy> policy_;
  at::Tensor weight_;  // [1, D], a leaf; undefined until the policy is loaded
  std::vector<Parameter> parameters_;
};

}  // namespace xrun
