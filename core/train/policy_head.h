#pragma once
// What the vocabulary's distribution is at a policy's trained tokens: entropy, log-sum-exp, top k,
// several targets, temperature.

#include <ATen/core/Tensor.h>

#include "core/model/linear_head.h"

namespace xrun {

class Batch;
class Policy;
class View;

// Returns what linear_head.h says of each trained token of a view, [R] and [R, k], from the
// hidden states of the step's forward and one product with the vocabulary a call.
//   target  [R] or [R, M] int64, in place of the trained tokens
// options.head_mb is of no account: each call keeps what those before it in the micro-batch left of
// the policy's. Log-probs without target, temperature and columns are reported by the step as those
// of Policy::token_logprob are. Throws Error for other sizes and for options out of range.
HeadResult policy_head(Policy& policy, const View& view, HeadOptions options = {},
                       const at::Tensor& target = {});

// The same over a whole batch: all micro-batches, without gradient, in batch order.
HeadResult policy_head(Policy& policy, Batch& batch, const HeadOptions& options = {});

}  // namespace xrun
