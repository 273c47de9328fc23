#pragma once
// The gated SiLU of Llama's feed-forward; the op xrun::swiglu.

#include <ATen/core/Tensor.h>

#include "core/model/ops/op_memory.h"

namespace xrun {

// Returns silu(gate) * up, elementwise; silu in fp32, rounded before the product (Shazeer 2020).
//   gate, up  of one shape and floating type; fp32 and bf16 have kernels on the CPU
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// Memory of one call per token, for the plan of a step; `width` is the last size of gate.
// The forward saves gate and up for the backward.
void swiglu_saves(SavedTensors& saved, double width);
Temporaries swiglu_temporaries(double width);

}  // namespace xrun
