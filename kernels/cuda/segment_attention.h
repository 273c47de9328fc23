#pragma once
// Causal attention within the segments of a pack as products of ATen, a segment at a time, and what
// the library kernels need to know of a pack. Nothing here names a device.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace xrun::kernels {

// Softmax of the scores in fp32 over [H, n, n] of each segment: for shapes that the library kernels
// do not take. As the op xrun::varlen_attention_forward.
//   q [T, H, K];  k, v [T, G, K];  cu_seqlens [S+1];  window 0: all
// Returns out [T, H, K] in the type of q, lse [H, T] fp32.
std::tuple<at::Tensor, at::Tensor> attention_forward(const at::Tensor& q, const at::Tensor& k,
                                                     const at::Tensor& v,
                                                     at::IntArrayRef cu_seqlens, double scale,
                                                     int64_t window);
// dq, dk, dv in the types of q, k and v.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, at::IntArrayRef cu_seqlens, double scale,
    int64_t window);

// Throws c10::Error unless shapes and boundaries are those of a pack.
void check_pack(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                at::IntArrayRef cu_seqlens, int64_t window);

// The segments of a pack that are not empty, as library kernels take them.
struct PackBorders {
  at::Tensor cu_seqlens;  // [S+1] int32 on the device
  int64_t count = 0;      // S
  int64_t longest = 0;    // tokens
  at::Tensor place;       // [T] int64: segment * padded + position in it
  int64_t padded = 0;     // the longest segment, rounded up to a multiple of 32
};

// The last answer of a thread is kept, since all layers of a forward ask the same.
PackBorders pack_borders(at::IntArrayRef cu_seqlens, c10::Device device);

// lse [H, T] from and to the form of a kernel that pads segments, [S, H, padded]. Padding is +inf,
// whose exp(x - lse) is 0.
at::Tensor unpadded_lse(const at::Tensor& padded, const PackBorders& borders);
at::Tensor padded_lse(const at::Tensor& lse, const PackBorders& borders);

// Key heads, one for each query head: [T, G, K] to [T, H, K]; and the sum back.
at::Tensor head_copies(const at::Tensor& k, int64_t heads);
at::Tensor sum_of_copies(const at::Tensor& dk, int64_t groups);

}  // namespace xrun::kernels
