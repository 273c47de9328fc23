#pragma once
// The C++ signatures of the halves of xrun::varlen_attention, which every device gives.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace xrun {

// (q, k, v, cu_seqlens, scale, window) to out [T, H, K] and lse [H, T] fp32 (fp64 for fp64).
using AttentionForward = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& q,
                                                            const at::Tensor& k,
                                                            const at::Tensor& v,
                                                            at::IntArrayRef cu_seqlens,
                                                            double scale, int64_t window);

// The gradient of out, and what the forward had and gave, to dq, dk, dv.
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, at::IntArrayRef cu_seqlens, double scale,
    int64_t window);

}  // namespace xrun
