#pragma once
// The experts of a mixture: each token goes through the experts that it was routed to; the op
// xrun::moe_experts.

#include <ATen/core/Tensor.h>

#include "core/model/ops/linear.h"

namespace xrun {

// Returns sum over a token's k slots, by rising expert, of weight * down_e(silu(gate_e x) * (up_e
// x)), [T, D] in the type of x. Experts without tokens get zero gradients. No token is dropped.
//   x        [T, D] fp32, bf16 or fp16 (no gradient in fp16)
//   index    [T, k] int64 in [0, E);  weight [T, k] in the type of x
//   gate_up  [E, 2 I, D], gate rows first;  down [E, D, I], in the type of x
//   gemm     as in linear.h
// One product per expert and matrix, over its tokens in their order; sums over slots in fp32. T = 0
// is legal. Throws Error for shapes that disagree and an index outside the experts.
at::Tensor moe_experts(const at::Tensor& x, const at::Tensor& index, const at::Tensor& weight,
                       const at::Tensor& gate_up, const at::Tensor& down,
                       GemmType gemm = GemmType::kStorage);

// Its backward saves the input `x`, `width` elements per token, and gate and up of the token's
// experts.
void moe_experts_saves(SavedTensors& saved, const std::string& x, double width, double inner,
                       double top_k);
// width D, inner I, for each of the top_k rows of a token.
Temporaries moe_experts_temporaries(double width, double inner, double top_k);

}  // namespace xrun
