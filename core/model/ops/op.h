#pragma once
// Shared by the operators of this folder: calls through the dispatcher, access to kernels, checks
// of arguments.
//
// An operator is one file: schema, CPU form, `_composed` form and backward. The composed form uses
// ATen operations only and serves every device without a specific form. X_cuda.cpp, if there is
// one, launches the kernels of kernels/cuda and belongs to the plug-in.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "kernels/cpu/kernels.h"

namespace xrun {

// Finds an operator once: `static const auto op = find_op<decltype(f)>("xrun::name")`, where f is
// any function with the operator's C++ signature.
template <class Signature>
auto find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

// Returns true if our CPU kernels take the type of x.
inline bool has_kernel_type(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
}

// Calls f with a value of the kernels' element type for x, which has_kernel_type.
template <class F>
void with_kernel_type(const at::Tensor& x, F f) {
  if (x.scalar_type() == at::kFloat) {
    f(float{});
  } else {
    f(kernels::Bf16{});
  }
}

// The type in which the composed forms compute: fp64 for fp64, else fp32.
inline at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

template <class T>
T* kernel_data(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

// Elements below which another thread costs more than it saves.
constexpr int64_t kGrainElements = 16384;

// Recipes can call every operator, the internal forward and backward halves included, so each of
// them checks all of its arguments. `op` and `name` (of the argument) begin the message of the
// Error that these throw.

// Dense on the device, with exactly these sizes.
void check_sizes(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef wanted,
                 c10::Device device = c10::kCPU);

// Dense on the device, of a floating type.
void check_floating(const char* op, const char* name, const at::Tensor& x,
                    c10::Device device = c10::kCPU);

// Dense on the device, of this type.
void check_type(const char* op, const char* name, const at::Tensor& x, at::ScalarType wanted,
                c10::Device device = c10::kCPU);

// Begins the backward of each operator. None can be differentiated again, and a second derivative
// would silently lack its share. Throws Error if backward runs with create_graph.
void refuse_second_derivative(const char* op);

}  // namespace xrun
