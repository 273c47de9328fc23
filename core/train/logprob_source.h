#pragma once
// The interface of models that give log-probs of views and batches: policies, references, teachers.

#include <ATen/core/Tensor.h>

namespace xrun {

class Batch;
class View;

// A source of log-probs. Not thread-safe.
class LogprobSource {
 public:
  virtual ~LogprobSource() = default;

  // Returns log p of each trained token of a view, [R] float32, in the view's row order. The first
  // call for a micro-batch runs one forward for all of its views.
  virtual at::Tensor token_logprob(const View& view) = 0;

  // Returns the plain sum over the trained tokens of each segment, [n] float32. A segment without
  // a trained token gives 0.
  virtual at::Tensor logprob(const View& view) = 0;

  // The same over all micro-batches of a batch, without gradient, in batch order.
  at::Tensor token_logprob(Batch& batch);  // [R]
  at::Tensor logprob(Batch& batch);        // [n]
};

}  // namespace xrun
