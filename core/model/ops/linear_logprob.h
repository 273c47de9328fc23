#pragma once
// Log-probabilities of chosen tokens under a vocabulary projection, without keeping logits.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

// Returns log softmax(hidden[index] weight^T)[target], [R] fp32; the op xrun::linear_logprob.
//   hidden   [T, D] fp32, bf16 or fp16
//   weight   [V, D] fp32, bf16 or fp16
//   index    [R] int64, rows of hidden that have a loss; may repeat, in any order
//   target   [R] int64 in [0, V)
//   head_mb  MiB for the softmax rows that are kept for the backward; rows beyond it are
//            computed again there, 256 at a time, one GEMM of four instead of three
// Only the R rows meet the vocabulary; logits and softmax are fp32 whatever the inputs are. The
// backward takes any gradient per row. R = 0 gives an empty result and zero gradients. There is
// no second derivative. Throws Error for another shape, type or device, and on the CPU one that
// names value and bound if an id is out of range; on a GPU such a target gives NaN. Chunks depend
// on shapes alone.
at::Tensor linear_logprob(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& index, const at::Tensor& target,
                          int64_t head_mb = 1024);

}  // namespace xrun
