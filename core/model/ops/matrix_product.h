#pragma once
// Products of fp32 matrices on the CPU by the library that computes them fastest.

#include <ATen/core/Tensor.h>

namespace xrun {

enum class Into { kReplace, kAdd };

// out = a b, or out += a b, with a [M, K], b [K, N] and out [M, N] fp32 on the CPU, out with unit
// stride in a row; transposed views cost nothing. No graph is recorded. The same shapes, strides
// and thread count give the same bits. K = 0 is a zero product.
//
// oneDNN rather than at::mm's BLAS: at the head's shapes (Zen 4, one thread) it runs at 95 to 105
// GF/s where the BLAS has 75 to 96, at width 64 at 76 to 107 where the BLAS has 65 to 75. Without
// AVX-512 LibTorch refuses it, and the BLAS multiplies.
void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   Into into = Into::kReplace);

}  // namespace xrun
