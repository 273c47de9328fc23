#pragma once
// Root-mean-square norm over the last dimension, with its own backward; the op xrun::rms_norm.

#include <ATen/core/Tensor.h>

namespace xrun {

// Returns weight * round(x / sqrt(mean(x^2) + eps)), statistics in fp32, rounded to the type of x
// before the weight (Zhang and Sennrich 2019; the cast order of transformers).
//   x       [..., D] fp32 or bf16 (others through ATen)
//   weight  [D]
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace xrun
