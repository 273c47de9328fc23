#pragma once
// Matrix products on the CPU: fp32 by the fastest library, and any type with fp32 operands.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/ops/linear.h"

namespace xrun {

enum class Into { kReplace, kAdd };

// out = a b, or out += a b, with a [M, K], b [K, N] and out [M, N] fp32 on the CPU, out with unit
// stride in a row; transposed views cost nothing. No graph is recorded. The same shapes, strides
// and thread count give the same bits. K = 0 is a zero product.
//
// oneDNN rather than at::mm's BLAS: at the head's shapes (Zen 4, one thread) it runs at 95 to 105
// GF/s where the BLAS reaches 75 to 96, at width 64 at 76 to 107 against 65 to 75. Without AVX-512
// LibTorch refuses oneDNN, and the BLAS multiplies.
void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   Into into = Into::kReplace);

// out = a b, for matrices of one type. With kFloat the operands are upcast and the result is
// rounded once.
void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b, GemmType gemm);

// Returns an uninitialised fp32 matrix in scratch memory.
at::Tensor scratch_matrix(int64_t rows, int64_t columns);

// Returns the values of a matrix in fp32: the matrix itself, or a copy in scratch memory.
at::Tensor upcast(const at::Tensor& x);

}  // namespace xrun
