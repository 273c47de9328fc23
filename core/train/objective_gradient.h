#pragma once
// Gradients of an objective without an update: of the weights, to compare two objectives, and of
// the log-probs that it reads, to check it against finite differences.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/train/objective.h"
#include "core/train/step.h"

namespace xrun {

class AdamW;
class Batch;
class MicroBatch;

// The step's metrics and gradients, as train_step would have them before clipping.
struct ObjectiveGradient {
  Metrics metrics;  // loss, the objective's own, logprob_<view>, ..., grad_norm
  double norm = 0;
  std::vector<std::string> names;     // of the weights that have a gradient
  std::vector<at::Tensor> gradients;  // fp32, on the host
};

// Runs forward, objective and backward of every part and gives the gradient; weights and optimizer
// are as before. Throws as train_step does.
ObjectiveGradient objective_gradient(std::span<const StepPart> parts, AdamW& adamw,
                                     const StepOptions& options = {});

// How two gradients lie to each other in one group of weights: those whose names are alike but for
// numbers ("model.layers.*.mlp.up_proj.weight"); all of them come first, under "all".
struct GradientAngle {
  std::string group;
  double cosine = 0;      // 0 if one of them is 0
  double norm_ratio = 0;  // of the second to the first; infinite if only the first is 0
};
std::vector<GradientAngle> compare_gradients(const ObjectiveGradient& first,
                                             const ObjectiveGradient& second);

// An objective's gradient with respect to the log-probs that it reads against central differences
// of the weighted loss, row of the data by row: a pair's log-probs move together, along a random
// direction.
struct LogprobCheck {
  struct Unit {
    int64_t row = -1;     // its id
    double analytic = 0;  // the loss's slope along the direction
    double numeric = 0;
    // Relative to the larger of the two, beyond what rounding may explain; NaN if one is no number.
    double error = 0;
  };
  std::vector<Unit> units;  // as parts_more orders them
  int64_t without = 0;      // rows whose log-probs change no loss
  int64_t unsure = 0;       // rows whose slope rounding may explain: too small to tell
  bool narrow = false;      // the loss was not of float64, so differences are coarse

  // Whether a row's error is no larger than rounding makes; never where it is not finite.
  bool agrees(const Unit& unit) const;
};

// An order: those with NaN first, then by falling error.
bool parts_more(const LogprobCheck::Unit& a, const LogprobCheck::Unit& b);

// `leaves` gives the log-probs of a micro-batch that the objective has asked for, [R] float64 with
// gradient, each the values of its loss rows; what the objective reads is taken from them by its
// own calls, and the check moves them in place. Throws what the objective throws.
LogprobCheck check_logprobs(MicroBatch& micro, const Objective& objective,
                            const std::function<std::vector<at::Tensor>(MicroBatch&)>& leaves);

}  // namespace xrun
