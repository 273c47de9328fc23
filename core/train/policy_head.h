#pragma once
// What the vocabulary's distribution is at trained tokens, of a policy and of its reference:
// entropy, log-sum-exp, top k, several targets, temperature.

#include <ATen/core/Tensor.h>

#include "core/model/ops/linear_head.h"

namespace xrun {

class Batch;
class Policy;
class Reference;
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

// The same of the frozen weights, never with a gradient: the policy's own forward until its next
// update. Nothing of it is in the column, so the twin loads and runs the whole micro-batch, once
// for all views; log-probs are those of Reference::token_logprob, and like them differ from the
// column's in what the other segments of the pack change of the last digits.
HeadResult reference_head(Reference& reference, const View& view, const HeadOptions& options = {},
                          const at::Tensor& target = {});
HeadResult reference_head(Reference& reference, Batch& batch, const HeadOptions& options = {});

}  // namespace xrun
