#pragma once
// The experts of a mixture: each token goes through those that it was routed to. The op is
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
// There is one product per expert and matrix, over the expert's tokens in their order. Sums over
// slots are fp32. T = 0 is legal. Throws Error for shapes that disagree and for an index outside
// [0, E).
at::Tensor moe_experts(const at::Tensor& x, const at::Tensor& index, const at::Tensor& weight,
                       const at::Tensor& gate_up, const at::Tensor& down,
                       GemmType gemm = GemmType::kStorage);

// Declares what the backward of moe_experts saves: the input `x`, `width` elements per token, and
// gate and up of the token's experts.
void moe_experts_saves(SavedTensors& saved, const std::string& x, double width, double inner,
                       double top_k);
// Returns the temporaries, of width D and inner I for each of a token's top_k rows.
Temporaries moe_experts_temporaries(double width, double inner, double top_k);

}  // namespace xrun
