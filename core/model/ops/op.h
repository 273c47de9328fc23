#pragma once
// Shared by the operators of this folder: calls through the dispatcher, element types of kernels,
// and checks of arguments.
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

// Calls f with a value of the kernels' element type for x: float or Bf16. has_kernel_type(x) holds.
template <class F>
void with_kernel_type(const at::Tensor& x, F f) {
  if (x.scalar_type() == at::kFloat) {
    f(float{});
  } else {
    f(kernels::Bf16{});
  }
}

// Returns the type in which the composed forms compute: fp64 for fp64, else fp32.
inline at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Returns the elements of a contiguous tensor; T is its element type, as with_kernel_type gives it.
template <class T>
T* kernel_data(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

// Elements below which another thread costs more than it saves.
constexpr int64_t kGrainElements = 16384;

// Recipes can call every operator, also its internal forward and backward halves, so each of them
// checks all of its arguments. The checks throw Error "OP: NAME is ...", where `name` is that of
// the argument, unless x is a dense tensor on the device with
//   check_sizes     exactly these sizes
//   check_floating  a floating type
//   check_type      exactly this type
void check_sizes(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef wanted,
                 c10::Device device = c10::kCPU);
void check_floating(const char* op, const char* name, const at::Tensor& x,
                    c10::Device device = c10::kCPU);
void check_type(const char* op, const char* name, const at::Tensor& x, at::ScalarType wanted,
                c10::Device device = c10::kCPU);

// Throws Error if backward runs with create_graph. Every operator's backward calls it first: none
// can be differentiated again, and a second derivative would silently lack the operator's part.
void refuse_second_derivative(const char* op);

}  // namespace xrun
