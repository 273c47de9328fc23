#pragma once
// Operands in fp32, and products that compute in a chosen type.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/ops/linear.h"

namespace xrun {

// An uninitialised fp32 matrix in scratch memory.
at::Tensor scratch_matrix(int64_t rows, int64_t columns);

// The values of a matrix in fp32: itself, or a copy in scratch memory.
at::Tensor widened(const at::Tensor& x);

// out = a b, for matrices of one type; with kFloat operands are widened and the result is rounded
// once.
void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b, GemmType gemm);

}  // namespace xrun
