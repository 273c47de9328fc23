#pragma once
// What rows of logits tell beside a softmax: log-probabilities of several targets, log-sum-exp,
// entropy and top k, and the gradient of the logits from the gradients of all these.

#include <cstdint>

namespace xrun::kernels {

// Below, s = scale * z over a row's first `columns` logits z, and p = softmax s. The logits behind
// them, up to `width`, are padding that nothing reads.
struct HeadRows {
  const float* z;  // [rows, width]
  int64_t rows, width, columns;
  float scale;            // above 0
  const int64_t* target;  // [rows, targets] in [0, columns)
  int64_t targets;
  float* logprob;      // [rows, targets] out: s[target] - lse
  float* lse;          // [rows] out: log sum exp s
  float* entropy;      // [rows] out: lse - sum p s; null if not wanted
  int64_t top;         // 0 to columns
  float* top_logprob;  // [rows, top] out: falling; of equal logits the lowest id first
  int64_t* top_id;     // [rows, top] out
};

// dz = scale (sum_i grad_i (e_(id_i) - p) + grad_lse p - grad_entropy p (log p + entropy)), and 0
// in the padding.
struct HeadRowsBackward {
  const float* z;  // [rows, width]
  float* dz;       // [rows, width] out; may be z
  int64_t rows, width, columns;
  float scale;
  const int64_t* id;  // [rows, ids] in [0, columns); may repeat in a row
  const float* grad;  // [rows, ids]
  int64_t ids;
  const float* lse;           // [rows]
  const float* grad_lse;      // [rows]
  const float* entropy;       // [rows]; null with grad_entropy
  const float* grad_entropy;  // [rows] or null
};

}  // namespace xrun::kernels
