// y = round(x32 W32^T + b32); dx = round(dy32 W32), dW = round(dy32^T x32), db = round(sum dy32).

#include "core/model/ops/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/base/error.h"
#include "core/model/ops/op_call.h"
#include "core/model/ops/op_check.h"
#include "core/model/ops/widened.h"

namespace xrun {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

void check_operands(const at::Tensor& x, const at::Tensor& weight) {
  check_floating("linear", "x", x);
  check_type("linear", "weight", weight, x.scalar_type());
  XRUN_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1),
             "linear: x is [{}], weight [{}]; wanted [T, in] and [out, in]",
             fmt::join(x.sizes(), ", "), fmt::join(weight.sizes(), ", "));
}

at::Tensor forward_cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  check_operands(x, weight);
  at::Tensor y = scratch_matrix(x.size(0), weight.size(0));
  at::mm_out(y, widened(x), widened(weight).t());
  if (bias.has_value() && bias->defined()) {
    check_type("linear", "bias", *bias, x.scalar_type());
    check_sizes("linear", "bias", *bias, {weight.size(0)});
    y.add_(*bias);
  }
  return y.to(x.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Gradients that are not wanted come undefined.
Backward backward_cpu(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                      bool x_wanted, bool weight_wanted, bool bias_wanted) {
  check_operands(x, weight);
  check_type("linear", "grad", grad, x.scalar_type());
  check_sizes("linear", "grad", grad, {x.size(0), weight.size(0)});
  const at::Tensor wide = widened(grad);
  Backward result;
  if (x_wanted) {
    at::Tensor dx = scratch_matrix(x.size(0), x.size(1));
    at::mm_out(dx, wide, widened(weight));
    std::get<0>(result) = dx.to(x.scalar_type(), false, /*copy=*/true);
  }
  if (weight_wanted) {
    at::Tensor dw = scratch_matrix(weight.size(0), weight.size(1));
    at::mm_out(dw, wide.t(), widened(x));
    std::get<1>(result) = dw.to(x.scalar_type(), false, /*copy=*/true);
  }
  if (bias_wanted) std::get<2>(result) = wide.sum(0).to(x.scalar_type());
  return result;
}

at::Tensor call_forward(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  static const auto op = find_op<decltype(forward_cpu)>("xrun::linear_forward");
  return op.call(x, weight, bias);
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& weight, const OptionalTensor& bias) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({x, weight});
    ctx->saved_data["bias"] = bias.has_value() && bias->defined();
    return call_forward(x, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("linear");
    static const auto op = find_op<decltype(backward_cpu)>("xrun::linear_backward");
    const auto saved = ctx->get_saved_variables();
    const bool has_bias = ctx->saved_data["bias"].toBool();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dx, dw, db] = op.call(grads[0].contiguous(), saved[0], saved[1], ctx->needs_input_grad(0),
                                ctx->needs_input_grad(1), has_bias && ctx->needs_input_grad(2));
    return {dx, dw, db};
  }
};

at::Tensor with_graph(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  return LinearFunction::apply(x, weight, bias);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
  m.def("linear_forward(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
  m.def(
      "linear_backward(Tensor grad, Tensor x, Tensor weight, bool x_wanted, bool weight_wanted, "
      "bool bias_wanted) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("linear_forward", forward_cpu);
  m.impl("linear_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) { m.impl("linear", call_forward); }

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("linear", with_graph); }

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  GemmType gemm) {
  if (gemm == GemmType::kStorage || x.scalar_type() == at::kFloat) {
    return at::linear(x, weight, bias);
  }
  static const auto op = find_op<decltype(call_forward)>("xrun::linear");
  return op.call(x, weight, bias.defined() ? OptionalTensor(bias) : std::nullopt);
}

const char* gemm_name(GemmType gemm) { return gemm == GemmType::kStorage ? "storage" : "fp32"; }

}  // namespace xrun
