#pragma once
// The fused head projects chosen rows to the vocabulary without keeping all logits. It returns
// log-probabilities of one or several targets, entropy, log-sum-exp and top k.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

struct HeadOptions {
  double temperature = 1.0;  // logits are divided by it; above 0
  // The first `columns` of the V columns exist; the padding after them has no probability. 0: all.
  int64_t columns = 0;
  bool entropy = false;
  bool lse = false;
  int64_t top_k = 0;  // 0: none
  // MiB of logits or softmax rows that this call keeps; other rows are recomputed.
  int64_t head_mb = 1024;
};

// fp32, or fp64 for a weight in fp64; undefined where not wanted. All but top_id carry gradients to
// hidden and weight.
struct HeadResult {
  at::Tensor logprob;      // [R] or [R, M], as target
  at::Tensor entropy;      // [R], nats: lse - sum p s
  at::Tensor lse;          // [R], log of the sum of exponentials of the divided logits
  at::Tensor top_logprob;  // [R, k], descending; of equal logits the lowest id first
  at::Tensor top_id;       // [R, k] int64
};

// Returns the results that the options ask for, from one GEMM over the R rows. The op is
// xrun::linear_head; its default is to return lse too, and results not requested are empty tensors.
//   hidden  [T, D] fp32, bf16 or fp16;  weight [V, D]. In fp64 all logits are kept, as a reference.
//   index   [R] int64, rows of hidden; may repeat, in any order
//   target  [R] or [R, M] int64 in [0, columns)
// Logits and softmax are fp32 whatever the inputs are. With logits z, s = z / temperature,
// p = softmax s, and gradients a (targets, top k), b (lse), c (entropy):
//   dz = (sum_m a_m (e_(y_m) - p) + b p - c p (log p + entropy)) / temperature.
// If only one target per row is wanted (temperature 1, all columns, no entropy, lse or top k), the
// saved rows hold p - e_y instead of logits: dx = -a ((p - e_y) W) and dW = (p - e_y)^T (-a x) need
// no second pass over [R, V]. Rows beyond head_mb take a fourth GEMM. Results have the same bits
// whatever head_mb is. So have gradients, except in the case of one target only, where they are
// summed over all saved rows at once. R = 0 gives empty results and zero gradients. There is no
// second derivative. Throws Error for another shape, type or device, for an option out of range,
// and on the CPU for an id out of range. A GPU does not check ids, since that would wait for it: a
// target out of range gives NaN, and index is trusted.
HeadResult linear_head(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                       const at::Tensor& target, const HeadOptions& options = {});

// Returns the logits of hidden states, [n, V] fp32, without a graph; the op xrun::head_logits. They
// are those of linear_head on a GPU, for sampling there.
//   hidden  [n, D];  weight [V, D], of one type
at::Tensor head_logits(const at::Tensor& hidden, const at::Tensor& weight);

// The memory of a head on the CPU, in bytes.
struct HeadMemory {
  double scratch = 0;   // saved softmax rows and one block of other rows; reused by every step
  double saved = 0;     // the gathered rows x, for the backward
  double backward = 0;  // temporaries of the backward, without dweight
  double weight = 0;    // dweight, [V, D] in fp32
};

struct HeadSizes {
  int64_t tokens = 0;
  int64_t rows = 0;        // with a gradient
  int64_t other_rows = 0;  // without one, evaluated while softmax rows wait for their backward
  int64_t vocab = 0, width = 0;
  int64_t head_mb = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

// Returns the memory of a head that gives log-probs of one target per row.
HeadMemory head_memory(const HeadSizes& sizes);

}  // namespace xrun
