#pragma once
// Causal attention over packed segments and prefix trees: each token attends along its path, and
// nothing is padded. The ops are xrun::varlen_attention and xrun::varlen_attention_lse. Their
// device forms are in attention_cpu.cpp and attention_cuda.cpp; attention_composed.cpp has the form
// in plain products.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/ops/attention_layout.h"
#include "core/model/ops/op_memory.h"

namespace xrun {

// Returns softmax(scale q k^T) v per head, [T, H, K], over the keys that the layout lets a row see.
// Query head h reads key head h / (H / J). Throws Error for shapes and types that do not fit, and
// as check_layout does.
//   q       [T, H, K] fp32, bf16 or fp16 (fp64 on the CPU)
//   k, v    [T, J, K], J divides H
//   layout  of T rows
at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionLayout& layout, double scale);

// Keys and values of the first rows of a layout, from an earlier forward.
struct HeldKeys {
  at::Tensor k, v;  // [C, J, K]
};

// Returns attention for the rows after the first C of a layout, [T - C, H, K]; they also see the
// held keys. Every row has the bits that it has in one call over all T rows, and gradients flow to
// the held keys and values as well.
//   q, k, v  [T - C, ...]
at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const HeldKeys& held, const AttentionLayout& layout, double scale);

// Attention of all rows, and the natural log of each row's sum of exponentials, by which attentions
// over two sets of keys are merged: out = sigmoid(lse_1 - lse_2) (out_1 - out_2) + out_2. Both
// carry gradients; that of lse costs another forward and backward.
struct AttentionResult {
  at::Tensor out;  // [T, H, K]
  at::Tensor lse;  // [H, T] fp32 (fp64 for fp64)
};
AttentionResult varlen_attention_lse(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const AttentionLayout& layout, double scale);

// Declares what the backward of varlen_attention saves: q, k, v, out and lse of a token.
void attention_saves(SavedTensors& saved, double heads, double kv_heads, double head_dim);
// Returns the temporaries from the inputs of the q, k and v projections to the output of attention,
// and back.
Temporaries attention_temporaries(double heads, double kv_heads, double head_dim);

}  // namespace xrun
