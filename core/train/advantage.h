#pragma once
// Group-relative advantages, the baseline of critic-free policy gradients.

#include <ATen/core/Tensor.h>

namespace xrun {

enum class Baseline { kMean, kLeaveOneOut };

struct AdvantageOptions {
  Baseline baseline = Baseline::kMean;
  bool scale = true;  // also divide by the group's unbiased standard deviation + eps
  double eps = 1e-6;
};

// Returns one advantage per rollout: its reward minus a baseline, the mean of its group (GRPO; Shao
// et al. 2024, section 4.1.1) or of the others in the group (RLOO; Ahmadian et al. 2024, eq. 8).
// Without scale this is Dr. GRPO (Liu et al. 2025). The result has the type and device of `reward`.
//   reward  [N] floating point or whole numbers, which give float32
//   group   [N] int64, the prompt a rollout belongs to; groups may differ in size and interleave
// A group whose rewards are all equal, or of one rollout, gives exact zeros, never NaN. Computed in
// double, in the order of the rollouts; values on a device are read on the host.
// Throws Error if shapes differ, a reward is not finite, or eps is below 0.
at::Tensor group_advantage(const at::Tensor& reward, const at::Tensor& group,
                           const AdvantageOptions& options = {});

}  // namespace xrun
