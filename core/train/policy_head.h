#pragma once
// Statistics of the vocabulary distribution at trained tokens, for a policy and its reference:
// entropy, log-sum-exp, top k, several targets, temperature.

#include <ATen/core/Tensor.h>

#include "core/model/ops/linear_head.h"

namespace xrun {

class Batch;
class Policy;
class Reference;
class View;

// Returns the outputs of linear_head.h for each trained token of a view, [R] and [R, k], from the
// hidden states of the step's forward and one product with the vocabulary per call.
//   target  [R] or [R, M] int64, in place of the trained tokens
// options.head_mb is ignored: each call uses what earlier calls of the micro-batch left of the
// policy's. Log-probs without target, temperature and columns are reported by the step as those
// of Policy::token_logprob are. Throws Error for other sizes and for options out of range.
HeadResult policy_head(Policy& policy, const View& view, HeadOptions options = {},
                       const at::Tensor& target = {});

// The same over a whole batch: all micro-batches, without gradient, in batch order.
HeadResult policy_head(Policy& policy, Batch& batch, const HeadOptions& options = {});

// The same for the frozen weights, without gradient. Until the policy's next update this is the
// policy's own forward; afterwards the twin runs once over the whole micro-batch for all views,
// because the reference's sidecar stores log-probs alone. The log-probs may differ in their last
// digits from those that the sidecar stores (Reference::token_logprob).
HeadResult reference_head(Reference& reference, const View& view, const HeadOptions& options = {},
                          const at::Tensor& target = {});
HeadResult reference_head(Reference& reference, Batch& batch, const HeadOptions& options = {});

// Returns the logits of each trained token of a view, [R, V] float32, from a forward for this call
// alone. For prototyping: nothing limits the memory.
at::Tensor policy_logits(Policy& policy, const View& view);

}  // namespace xrun
