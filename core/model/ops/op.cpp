// A check reads only the sizes, type and device of a tensor, never its values.

#include "core/model/ops/op.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace xrun {

namespace {

// Quantised, sparse and meta tensors have no memory that a kernel could read.
void check_dense(const char* op, const char* name, const at::Tensor& x,
                 c10::Device device = c10::kCPU) {
  XRUN_CHECK(x.defined() && x.layout() == at::kStrided && x.device() == device,
             "{}: {} is not a dense tensor on {}", op, name,
             device.is_cpu() ? "the CPU" : device.str());
}

}  // namespace

void check_sizes(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef wanted,
                 c10::Device device) {
  check_dense(op, name, x, device);
  XRUN_CHECK(x.sizes() == wanted, "{}: {} is [{}], wanted [{}]", op, name,
             fmt::join(x.sizes(), ", "), fmt::join(wanted, ", "));
}

void check_floating(const char* op, const char* name, const at::Tensor& x, c10::Device device) {
  check_dense(op, name, x, device);
  XRUN_CHECK(at::isFloatingType(x.scalar_type()), "{}: {} is {}, wanted a floating type", op, name,
             c10::toString(x.scalar_type()));
}

void check_type(const char* op, const char* name, const at::Tensor& x, at::ScalarType wanted,
                c10::Device device) {
  check_dense(op, name, x, device);
  XRUN_CHECK(x.scalar_type() == wanted, "{}: {} is {}, wanted {}", op, name,
             c10::toString(x.scalar_type()), c10::toString(wanted));
}

// Our backward functions are not differentiable; a silent zero would be worse than an error.
void refuse_second_derivative(const char* op) {
  XRUN_CHECK(!at::GradMode::is_enabled(),
             "{} has no second derivative; call backward without create_graph", op);
}

}  // namespace xrun
