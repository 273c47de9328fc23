#pragma once
// The gradient of a step without its update, to compare two objectives.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/train/step.h"

namespace xrun {

// The metrics and gradients that train_step would have before clipping.
struct ObjectiveGradient {
  Metrics metrics;  // loss, the objectives' own, logprob_<view>, ..., grad_norm
  double norm = 0;
  std::vector<std::string> names;     // of the weights that have a gradient
  std::vector<at::Tensor> gradients;  // fp32, on the host
};

// Runs forward, objective and backward of every term; weights and optimizer state stay unchanged.
// Throws as train_step does.
ObjectiveGradient objective_gradient(const std::vector<StepTerm>& terms, AdamW& adamw,
                                     const StepOptions& options = {});

// The angle between two gradients in one group of weights. A group holds the weights whose names
// differ in numbers only ("model.layers.*.mlp.up_proj.weight").
struct GradientAngle {
  std::string group;
  double cosine = 0;      // 0 if one of them is 0
  double norm_ratio = 0;  // second to first; infinite if only the first is 0, 1 if both are
};

// Returns the angle over all weights, as group "all", then one per group in the order of the
// weights.
std::vector<GradientAngle> compare_gradients(const ObjectiveGradient& first,
                                             const ObjectiveGradient& second);

}  // namespace xrun
