#pragma once
// The halves of xrun::varlen_attention that every device implements, their check, and the form of a
// pack that library kernels take.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

#include "core/model/ops/attention.h"
#include "core/model/ops/attention_layout.h"
#include "core/model/ops/op.h"

namespace xrun {

// (q, k, v, cu_seqlens, scale, window, parent) to out [T, H, K] and lse [H, T] fp32 (fp64 for
// fp64).
using AttentionForward = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef cu_seqlens,
    double scale, int64_t window, at::IntArrayRef parent);

// The gradient of out, and the forward's inputs and results, to dq, dk, dv.
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, at::IntArrayRef cu_seqlens, double scale,
    int64_t window, at::IntArrayRef parent);

// The CPU's kernels for rows that see held keys (tree_attention.h), in fp32 and bf16.
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

// Throw Error unless tensors of one device and the layout fit each other (attention.h). That of the
// backward checks the inputs of the forward too.
//   held  rows of the layout before those of q
void check_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     at::IntArrayRef cu_seqlens, int64_t window, at::IntArrayRef parent,
                     int64_t held = 0);
void check_attention_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                              at::IntArrayRef cu_seqlens, int64_t window, at::IntArrayRef parent,
                              int64_t held = 0);

// Plain products of ATen, one tree at a time, under a dense mask [n, n] over scores [H, n, n]: the
// composed form, and the reference of tests. Computes in fp32, or fp64 if the inputs are.
AttentionForward attention_forward_composed;
AttentionBackward attention_backward_composed;

// The non-empty segments of a pack, as library kernels take them.
struct PackBorders {
  at::Tensor cu_seqlens;  // [S+1] int32 on the device
  int64_t count = 0;      // S
  int64_t longest = 0;    // tokens
  at::Tensor padded_row;  // [T] int64: segment * padded + position in the segment
  int64_t padded = 0;     // the longest segment, rounded up to a multiple of 32
};

PackBorders make_pack_borders(at::IntArrayRef cu_seqlens, c10::Device device);

// Returns make_pack_borders() of a pack, and remembers a thread's last result: all layers of a
// forward ask for the same one.
PackBorders pack_borders(at::IntArrayRef cu_seqlens, c10::Device device);

// lse [H, T] from and to the form of kernels that pad segments, [S, H, padded]. Padding is +inf,
// for which exp(x - lse) is 0.
at::Tensor unpadded_lse(const at::Tensor& padded, const PackBorders& borders);
at::Tensor padded_lse(const at::Tensor& lse, const PackBorders& borders);

// Key heads repeated for each query head, [T, J, K] to [T, H, K]; and the sum back.
at::Tensor head_copies(const at::Tensor& k, int64_t heads);
at::Tensor sum_of_copies(const at::Tensor& dk, int64_t groups);

}  // namespace xrun
