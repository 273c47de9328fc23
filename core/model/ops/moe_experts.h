#pragma once
// The experts of a mixture: each token goes through the experts that it was routed to; the op
// xrun::moe_experts.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

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

// Its backward saves the input `x`, `width` elements a token, and gate and up of the token's
// experts.
void moe_experts_saves(SavedTensors& saved, const std::string& x, double width, double inner,
                       double top_k);

// The rows of a mixture, one for each token and expert of it: its T k slots sorted by expert and,
// within one, by token.
struct ExpertRows {
  std::vector<int64_t> begin;  // [E+1]; the rows of expert e are [begin[e], begin[e + 1])
  at::Tensor slot;             // [T k] int64, the slot t k + j of each row
  at::Tensor token;            // [T k] int64, the token of each row
  at::Tensor of_token;         // [T, k] int64, the rows of each token, ascending
};

// Sorts the slots; a function of the index only.
//   index  [T, k] int64; the caller checks that it lies in [0, experts)
ExpertRows expert_rows(const at::Tensor& index, int64_t experts);

// Returns the sum of each token's rows, by rising expert in fp32, [T, D] in the type of x.
//   x       [T k, D] fp32, bf16 or fp16, contiguous, by row
//   weight  [T k] by row, in the type of x; undefined: 1
at::Tensor sum_of_rows(const at::Tensor& x, const at::Tensor& weight, const ExpertRows& rows);

}  // namespace xrun
