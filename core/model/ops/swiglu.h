#pragma once
// The gated SiLU of Llama's feed-forward, with its own backward; the op xrun::swiglu.

#include <ATen/core/Tensor.h>

namespace xrun {

// Returns silu(gate) * up, elementwise; silu in fp32, rounded before the product (Shazeer 2020).
//   gate, up  the same shape and type: fp32 or bf16 (others through ATen)
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace xrun
