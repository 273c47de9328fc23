#pragma once
// Log-probs without a model: what a dry step gives an objective in place of a forward.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/train/step.h"

namespace xrun {

class Batch;
class MicroBatch;
class View;

// While a session has one (Session::stand_in), logprob, token_logprob, head and score answer from
// it, no weights load and adamw:step updates nothing. A view, its batch and any other packing get
// the same values where the source gives them by row. Not thread-safe.
class LogprobStandIn {
 public:
  // log p of every loss row of a micro-batch for a model ("policy tiny", "reference 1"), [R] of any
  // floating type.
  using Source = std::function<at::Tensor(MicroBatch& micro, const std::string& model)>;
  // Between -4 and 0, a pure function of (seed, model, row, side, place of the token): no two
  // models agree.
  static Source seeded(uint64_t seed);

  explicit LogprobStandIn(Source source, c10::ScalarType dtype = c10::ScalarType::Float);

  // log p of each trained token of a view, [R]. With `trained`, and where gradients are on, they
  // are picked from a leaf with gradient, one a model and micro-batch.
  at::Tensor token_logprob(const View& view, const std::string& model, bool trained);
  at::Tensor logprob(const View& view, const std::string& model, bool trained);  // [n], their sums
  // The same over a whole batch, without gradient, in batch order.
  at::Tensor token_logprob(Batch& batch, const std::string& model);
  at::Tensor logprob(Batch& batch, const std::string& model);

  // What was asked for with gradient, by model and micro-batch: [R of the micro-batch] leaves. A
  // check moves their values in place.
  using Leaves = std::map<std::pair<std::string, const MicroBatch*>, at::Tensor>;
  Leaves& leaves() { return leaves_; }
  // Those of one micro-batch, in the order of the models' names.
  std::vector<at::Tensor> leaves_of(const MicroBatch& micro) const;
  // Forgets values and leaves.
  void clear();

  // Called with the parts of each adamw:step before its dry run; may be empty.
  std::function<void(std::span<const StepTerm>)> on_step;

 private:
  at::Tensor values(MicroBatch& micro, const std::string& model);

  // What the source gave, as long as the micro-batch lives: another may come to lie at its place.
  struct Known {
    std::weak_ptr<const MicroBatch> micro;
    at::Tensor values;
  };
  Source source_;
  c10::ScalarType dtype_;
  std::map<std::pair<std::string, const MicroBatch*>, Known> known_;
  Leaves leaves_;
};

}  // namespace xrun
