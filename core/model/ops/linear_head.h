#pragma once
// What the vocabulary projection can tell of chosen rows beside one target: several targets,
// entropy, log-sum-exp, top k.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

struct HeadOptions {
  double temperature = 1.0;  // logits are divided by it; above 0
  // The first `columns` of V exist, the padding behind them has no probability; 0: all of them.
  int64_t columns = 0;
  bool entropy = false;
  bool lse = false;
  int64_t top_k = 0;       // 0: none
  int64_t head_mb = 1024;  // MiB of logits that this call keeps; others are computed again
};

// fp32; undefined where it was not asked for. All but top_id carry gradients to hidden and weight.
struct HeadResult {
  at::Tensor logprob;      // [R] or [R, M], as target
  at::Tensor entropy;      // [R], nats: lse - sum p z
  at::Tensor lse;          // [R], log of the sum of exponentials of the divided logits
  at::Tensor top_logprob;  // [R, k], falling; of equal ones the lowest id first
  at::Tensor top_id;       // [R, k] int64
};

// One GEMM over the R rows, whatever is asked; the op xrun::linear_head, which always gives lse,
// and an empty tensor for what was not asked for.
//   hidden  [T, D] fp32, bf16 or fp16;  weight [V, D]
//   index   [R] int64 rows of hidden;   target [R] or [R, M] int64 in [0, columns)
// With z the divided logits, p = softmax z, and gradients a (targets, top k), b (lse), c (entropy):
//   dz = sum_m a_m (e_(y_m) - p) + b p - c p (log p + entropy),  divided by temperature.
// Rows beyond head_mb take a fourth GEMM and give the same bits. R = 0 gives empty results and zero
// gradients. There is no second derivative. Throws Error for another shape, type or device, for an
// option out of range, and on the CPU for an id out of range; on a GPU, which checking ids would
// wait for, the log-probability of such a target is NaN, and rows are the caller's word. Where
// targets are all that is wanted, linear_logprob is faster.
HeadResult linear_head(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                       const at::Tensor& target, const HeadOptions& options = {});

}  // namespace xrun
