#pragma once
// Activations of feed-forward layers without a gate's kernel. On the CPU an element has the same
// bits at every position; at::silu and at::gelu do not promise that.

#include <ATen/core/Tensor.h>

#include "core/model/ops/op_memory.h"

namespace xrun {

// Return the activation of every element, in the type of x. fp32 and bf16 have a kernel on the CPU;
// anything else is ATen's. Saves x.
at::Tensor silu(const at::Tensor& x);
at::Tensor gelu(const at::Tensor& x);       // by the error function
at::Tensor gelu_tanh(const at::Tensor& x);  // GPT-2's approximation

// An activation saves its input "up". If `gated`, its input is "gate", and the product with "up"
// saves both factors. `width` elements per token each.
void activation_saves(SavedTensors& saved, double width, bool gated);
Temporaries activation_temporaries(double width, bool gated);

}  // namespace xrun
