#pragma once
// Softmax of rows of logits with the log-probability of a target, and again from a log-sum-exp.

#include <cstdint>

namespace xrun::kernels {

// Softmax of `rows` rows of x [rows, V], and the log-probability of one target in each.
struct SoftmaxRows {
  float* x;               // [rows, V] logits; probabilities afterwards if `keep`
  const int64_t* target;  // [rows] in [0, V)
  float* logprob;         // [rows] out: x[target] - lse
  float* lse;             // [rows] out: log sum exp, may be null
  int64_t rows, width;
  bool keep;  // write the probabilities, minus one at the target
};

// Turns logits into probabilities minus one at the target, given the row's log-sum-exp.
struct SoftmaxFromLse {
  float* x;               // [rows, V] in and out
  const int64_t* target;  // [rows]
  const float* lse;       // [rows]
  int64_t rows, width;
};

}  // namespace xrun::kernels
