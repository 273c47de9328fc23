#pragma once
// Root-mean-square norm over the last dimension; the op xrun::rms_norm.

#include <ATen/core/Tensor.h>

#include "core/model/ops/op_memory.h"

namespace xrun {

// Returns weight * round(x / sqrt(mean(x^2) + eps)) (Zhang and Sennrich 2019). Statistics are fp32;
// the quotient is rounded to the type of x before it is multiplied by the weight, as in
// transformers.
//   x       [..., D] floating; fp32 and bf16 have kernels on the CPU
//   weight  [D]
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// Declares what the backward of rms_norm saves: the tensor `x`, `rows` rows of `width` elements per
// token, and one fp32 number per row.
void rms_norm_saves(SavedTensors& saved, const std::string& x, double width, double rows = 1);

}  // namespace xrun
