#pragma once
// Checks of what an op is given. Recipes reach every op, the internal ones of forward and backward
// too, so nothing may come to a kernel unchecked.

#include <ATen/core/Tensor.h>

namespace xrun {

// `op` and `name` (of the argument) begin the message of the Error that each of these throws.

// Dense on the device, with exactly these sizes.
void check_sizes(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef wanted,
                 c10::Device device = c10::kCPU);

// Dense on the device, of a floating type.
void check_floating(const char* op, const char* name, const at::Tensor& x,
                    c10::Device device = c10::kCPU);

// Dense on the device, of this type.
void check_type(const char* op, const char* name, const at::Tensor& x, at::ScalarType wanted,
                c10::Device device = c10::kCPU);

// Dense on the CPU, float32 or bfloat16: what our own kernels compute in.
void check_kernel_type(const char* op, const char* name, const at::Tensor& x);

// Each backward of our ops begins with it: none of them can be differentiated again, and a second
// derivative would lack their share in silence. Throws Error where backward runs with create_graph.
void refuse_second_derivative(const char* op);

}  // namespace xrun
