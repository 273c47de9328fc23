// A check reads only the sizes, type and device of a tensor, never its values.

#include "core/model/ops/op.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <string>

#include "core/base/error.h"

namespace xrun {

namespace {

std::string device_text(c10::Device device) { return device.is_cpu() ? "the CPU" : device.str(); }

// Sparse and meta tensors have no memory that a kernel could read.
void check_dense(const char* op, const char* name, const at::Tensor& x, c10::Device device) {
  XRUN_CHECK(x.defined(), "{}: {} is undefined, wanted a dense tensor on {}", op, name,
             device_text(device));
  const bool is_dense = x.layout() == at::kStrided;
  XRUN_CHECK(is_dense && x.device() == device, "{}: {} is {} on {}, wanted a dense tensor on {}",
             op, name, is_dense ? "dense" : "not dense", device_text(x.device()),
             device_text(device));
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

void refuse_second_derivative(const char* op) {
  XRUN_CHECK(!at::GradMode::is_enabled(),
             "{} has no second derivative; call backward without create_graph", op);
}

}  // namespace xrun
