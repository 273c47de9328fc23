#pragma once
// The forward and backward of xrun::varlen_attention that every device implements, their checks,
// and the form in which library kernels take a pack.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

#include "core/model/ops/attention.h"
#include "core/model/ops/attention_layout.h"
#include "core/model/ops/op.h"

namespace xrun {

// Returns out [T, H, K] and lse [H, T] fp32 (fp64 for fp64).
using AttentionForward = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef cu_seqlens,
    double scale, int64_t window, at::IntArrayRef parent);

// Returns dq, dk and dv, given the gradient of out and the forward's inputs and results.
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, at::IntArrayRef cu_seqlens, double scale,
    int64_t window, at::IntArrayRef parent);

// The CPU's kernels for rows that also see held keys (tree_attention.h), in fp32 and bf16.
std::tuple<at::Tensor, at::Tensor> held_attention_forward(const at::Tensor& q, const at::Tensor& k,
                                                          const at::Tensor& v, const HeldKeys& held,
                                                          at::IntArrayRef cu_seqlens, double scale,
                                                          int64_t window, at::IntArrayRef parent);

struct HeldGradients {
  at::Tensor q, k, v;  // [T - C, ...]
  HeldKeys held;
};
HeldGradients held_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      const HeldKeys& held, const at::Tensor& out,
                                      const at::Tensor& lse, at::IntArrayRef cu_seqlens,
                                      double scale, int64_t window, at::IntArrayRef parent);

// Throw Error unless the tensors are on one device and fit each other and the layout (attention.h).
// The check of the backward includes the inputs of the forward.
//   held  number of rows of the layout before those of q
void check_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     at::IntArrayRef cu_seqlens, int64_t window, at::IntArrayRef parent,
                     int64_t held = 0);
void check_attention_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                              at::IntArrayRef cu_seqlens, int64_t window, at::IntArrayRef parent,
                              int64_t held = 0);

// The composed form, and the reference of tests: plain products of ATen, one tree at a time, with a
// dense mask [n, n] over scores [H, n, n]. Computes in fp32, or in fp64 for fp64 inputs.
AttentionForward attention_forward_composed;
AttentionBackward attention_backward_composed;

// The non-empty segments of a pack, in the form that library kernels take.
struct PackBorders {
  at::Tensor cu_seqlens;  // [S+1] int32 on the device
  int64_t count = 0;      // S
  int64_t longest = 0;    // tokens
  at::Tensor padded_row;  // [T] int64, segment * padded + position in the segment
  int64_t padded = 0;     // length of the longest segment, rounded up to a multiple of 32
};

PackBorders make_pack_borders(at::IntArrayRef cu_seqlens, c10::Device device);

// Returns make_pack_borders() of a pack. Remembers each thread's last result, since all layers of a
// forward ask for the same one.
PackBorders pack_borders(at::IntArrayRef cu_seqlens, c10::Device device);

// Convert lse between [H, T] and the form [S, H, padded] of kernels that pad segments. Padding is
// +inf, for which exp(x - lse) is 0.
at::Tensor unpadded_lse(const at::Tensor& padded, const PackBorders& borders);
at::Tensor padded_lse(const at::Tensor& lse, const PackBorders& borders);

// Repeat key heads for each query head, [T, J, K] to [T, H, K], and sum the repeats back.
at::Tensor head_copies(const at::Tensor& k, int64_t heads);
at::Tensor sum_of_copies(const at::Tensor& dk, int64_t kv_heads);

}  // namespace xrun
