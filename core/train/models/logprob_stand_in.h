#pragma once
// Log-probs without a model, which a dry step gives to an objective in place of a forward.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/train/models/logprob_source.h"

namespace xrun {

class MicroBatch;
class View;

// Values by model and micro-batch. If the source gives them by row, a view, its batch and any other
// packing get the same values. Not thread-safe.
class LogprobStandIn {
 public:
  // Returns log p of every loss row of a micro-batch for a model ("policy tiny", "reference 1"),
  // [R] of any floating type.
  using StandInValues = std::function<at::Tensor(MicroBatch& micro, const std::string& model)>;
  // Returns a source of values between -4 and 0, each a pure function of (seed, model, row, side,
  // index of the token).
  static StandInValues seeded(uint64_t seed);

  explicit LogprobStandIn(StandInValues source, c10::ScalarType dtype = c10::ScalarType::Float);

  // Returns log p of each trained token of a view, [R]. With `trained`, if gradients are enabled,
  // the values are selected from a leaf with gradient, one per model and micro-batch.
  at::Tensor token_logprob(const View& view, const std::string& model, bool trained);

  // The leaves given so far, [R] by model and micro-batch. A check moves their values in place.
  using StandInLeaves = std::map<std::pair<std::string, const MicroBatch*>, at::Tensor>;
  StandInLeaves& leaves() { return leaves_; }
  // Returns the leaves of one micro-batch, in the order of the models' names.
  std::vector<at::Tensor> leaves_of(const MicroBatch& micro) const;
  // Forgets values and leaves.
  void clear();

 private:
  at::Tensor values(MicroBatch& micro, const std::string& model);

  // The source's values, valid while the micro-batch lives: a later one may have its address.
  struct MicroValues {
    std::weak_ptr<const MicroBatch> micro;
    at::Tensor values;
  };
  StandInValues source_;
  c10::ScalarType dtype_;
  std::map<std::pair<std::string, const MicroBatch*>, MicroValues> known_;
  StandInLeaves leaves_;
};

// A stand-in for one model: replaces a policy, a reference or a frozen model
// (LogprobSource::set_replacement), so that log-probs, heads, logits and scores come from it and no
// weights load. Code that needs more of a model than LogprobSource offers asks is_replaced()
// itself, in one place per kind of answer:
//   frozen_answers.cpp         log-probs of another tokenizer's chunks, its scores, token scores
//   distill/kd_view.cpp        the distillation loss of a view
//   rollout_sampler.cpp        random answers (stand_in_answer), marked Rollout::stand_in
//   bind/run/rollout_draws.cpp takes all random answers, whatever the filter says
// Rewards follow the mark (Rollouts::vary_stand_ins); `run:sample` asks for random answers directly
// (random_samples in bind/rollout/samples.cpp).
class ModelStandIn : public LogprobSource {
 public:
  // Values have gradients if `trained` returns true: an optimizer trains the model. `vocab` is the
  // number of logits. `check`, if any, throws for a micro-batch that the model refuses.
  ModelStandIn(std::shared_ptr<LogprobStandIn> values, std::string name,
               std::function<bool()> trained, int64_t vocab,
               std::function<void(const MicroBatch&)> check = {});

 protected:
  Model& own_model() override;  // throws Error: there are no weights
  at::Tensor own_token_logprob(const View& view) override;
  at::Tensor own_logprob(const View& view) override;
  // Values in the shapes of linear_head's outputs, each output with separate leaves.
  HeadResult own_head(const View& view, const HeadOptions& options,
                      const at::Tensor& target) override;
  // A few seeded columns per row times a fixed random matrix, plus the row's log-prob at its
  // target, so that a check of gradients reaches them too.
  at::Tensor own_logits(const View& view) override;
  at::Tensor own_score(const View& view, const ScoreWeight& weight) override;

 private:
  at::Tensor values(const View& view, const std::string& what);  // [R]

  std::shared_ptr<LogprobStandIn> values_;
  std::string name_;
  std::function<bool()> trained_;
  int64_t vocab_;
  std::function<void(const MicroBatch&)> check_;
};

}  // namespace xrun
