#pragma once
// Causal attention over packed segments and prefix trees: each token attends along its path, and
// nothing is padded. The ops are xrun::varlen_attention and xrun::varlen_attention_lse.
// attention_cpu.cpp and attention_cuda.cpp hold the device forms, attention_composed.cpp the form
// in plain products.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/ops/attention_layout.h"
#include "core/model/ops/op_memory.h"

namespace xrun {

// Returns softmax(scale q k^T) v per head, [T, H, K], over the keys that the layout lets a row see.
// Query head h reads key head h / (H / J).
//   q       [T, H, K] fp32, bf16 or fp16 (fp64 on the CPU)
//   k, v    [T, J, K], J divides H
//   layout  of T rows; Error if it does not pass check_layout
at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionLayout& layout, double scale);

// Keys and values of the first rows of a layout, from an earlier forward.
struct HeldKeys {
  at::Tensor k, v;  // [C, J, K]
};

// Returns attention for the rows after the first C of a layout, [T - C, H, K], which see the held
// rows as keys. Every row has the bits that it has in one call over all of them; gradients flow to
// the held keys and values as well.
//   q, k, v  [T - C, ...]
at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const HeldKeys& held, const AttentionLayout& layout, double scale);

// Attention of all rows, with the natural log of each row's sum of exponentials, which merges
// attentions over two sets of keys: out = sigmoid(lse_1 - lse_2) (out_1 - out_2) + out_2. Both
// carry gradients; that of lse costs another forward and backward.
struct AttentionResult {
  at::Tensor out;  // [T, H, K]
  at::Tensor lse;  // [H, T] fp32 (fp64 for fp64)
};
AttentionResult varlen_attention_lse(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const AttentionLayout& layout, double scale);

// Its backward saves q, k, v, out and lse of a token.
void attention_saves(SavedTensors& saved, double heads, double kv_heads, double head_dim);
// From the inputs of q, k and v's projections to the output of attention, and back.
Temporaries attention_temporaries(double heads, double kv_heads, double head_dim);

}  // namespace xrun
