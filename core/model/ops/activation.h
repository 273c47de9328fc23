#pragma once
// SiLU and GELU, for feed-forward layers that do not use the fused swiglu.h. On the CPU the result
// for an element has the same bits at every position, which at::silu and at::gelu do not promise.

#include <ATen/core/Tensor.h>

#include "core/model/ops/op_memory.h"

namespace xrun {

// Return the activation of every element of x, of any shape, in the type of x. On the CPU, fp32 and
// bf16 take our kernel; anything else takes ATen's. Saves x for the backward.
at::Tensor silu(const at::Tensor& x);
at::Tensor gelu(const at::Tensor& x);       // exact, by the error function
at::Tensor gelu_tanh(const at::Tensor& x);  // GPT-2's approximation

// Declare the memory of a layer with one of these activations, in tensors of `width` elements per
// token. Without a gate the activation saves its input, "up". With a gate its input is "gate", and
// the product with "up" saves both factors.
void activation_saves(SavedTensors& saved, double width, bool gated);
Temporaries activation_temporaries(double width, bool gated);

}  // namespace xrun
