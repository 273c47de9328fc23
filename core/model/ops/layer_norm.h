#pragma once
// Layer norm over the last dimension (GPT-2), computed by ATen.

#include <ATen/core/Tensor.h>

#include <string>

#include "core/model/ops/op_memory.h"

namespace xrun {

// Returns weight * (x - mean) / sqrt(variance + eps) + bias (Ba, Kiros and Hinton 2016).
//   x             [..., D] floating
//   weight, bias  [D]
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps);

// Declares what the backward of layer_norm saves: the tensor `x`, `width` elements per token, and
// two fp32 numbers per token.
void layer_norm_saves(SavedTensors& saved, const std::string& x, double width);

}  // namespace xrun
