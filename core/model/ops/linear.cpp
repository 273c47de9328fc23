// y = round(x32 W32^T + b32); dx = round(dy32 W32), dW = round(dy32^T x32), db = round(sum dy32).

#include "core/model/ops/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/ops/matrix_product.h"
#include "core/model/ops/op.h"
#include "core/model/ops/scratch.h"

namespace xrun {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
// dx, dweight, dbias; a gradient that is not wanted is undefined.
using LinearBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Throws Error for operands that do not fit; returns whether there is a bias.
bool check_linear(const at::Tensor& x, const at::Tensor& weight,
                  const OptionalTensor& bias = std::nullopt) {
  check_floating("linear", "x", x, x.device());
  check_type("linear", "weight", weight, x.scalar_type(), x.device());
  XRUN_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1),
             "linear: x is [{}], weight [{}]; wanted [T, in] and [out, in]",
             fmt::join(x.sizes(), ", "), fmt::join(weight.sizes(), ", "));
  if (!bias.has_value() || !bias->defined()) return false;
  check_type("linear", "bias", *bias, x.scalar_type(), x.device());
  check_sizes("linear", "bias", *bias, {weight.size(0)}, x.device());
  return true;
}

at::Tensor linear_composed(const at::Tensor& x, const at::Tensor& weight,
                           const OptionalTensor& bias) {
  const bool has_bias = check_linear(x, weight, bias);
  const at::Tensor b = has_bias ? bias->to(at::kFloat) : at::Tensor();
  return at::linear(x.to(at::kFloat), weight.to(at::kFloat), b).to(x.scalar_type());
}

at::Tensor linear_cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  const bool has_bias = check_linear(x, weight, bias);
  at::Tensor y = scratch_matrix(x.size(0), weight.size(0));
  at::mm_out(y, upcast(x), upcast(weight).t());
  if (has_bias) y.add_(*bias);
  // A copy even of fp32, since y is scratch memory.
  return y.to(x.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

void check_linear_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight) {
  check_linear(x, weight);
  check_type("linear", "grad", grad, x.scalar_type(), x.device());
  check_sizes("linear", "grad", grad, {x.size(0), weight.size(0)}, x.device());
}

LinearBackward linear_backward_composed(const at::Tensor& grad, const at::Tensor& x,
                                        const at::Tensor& weight, bool x_wanted, bool weight_wanted,
                                        bool bias_wanted) {
  check_linear_backward(grad, x, weight);
  const at::Tensor dy = grad.to(at::kFloat);
  LinearBackward result;
  auto& [dx, dweight, dbias] = result;
  if (x_wanted) dx = at::mm(dy, weight.to(at::kFloat)).to(x.scalar_type());
  if (weight_wanted) dweight = at::mm(dy.t(), x.to(at::kFloat)).to(x.scalar_type());
  if (bias_wanted) dbias = dy.sum(0).to(x.scalar_type());
  return result;
}

LinearBackward linear_backward_cpu(const at::Tensor& grad, const at::Tensor& x,
                                   const at::Tensor& weight, bool x_wanted, bool weight_wanted,
                                   bool bias_wanted) {
  check_linear_backward(grad, x, weight);
  const at::Tensor dy = upcast(grad);
  LinearBackward result;
  auto& [dx, dweight, dbias] = result;
  if (x_wanted) {
    at::Tensor product = scratch_matrix(x.size(0), x.size(1));
    at::mm_out(product, dy, upcast(weight));
    dx = product.to(x.scalar_type(), false, /*copy=*/true);
  }
  if (weight_wanted) {
    at::Tensor product = scratch_matrix(weight.size(0), weight.size(1));
    at::mm_out(product, dy.t(), upcast(x));
    dweight = product.to(x.scalar_type(), false, /*copy=*/true);
  }
  if (bias_wanted) dbias = dy.sum(0).to(x.scalar_type());
  return result;
}

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight,
                          const OptionalTensor& bias) {
  static const auto op = find_op<decltype(linear_cpu)>("xrun::linear_forward");
  return op.call(x, weight, bias);
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& weight, const OptionalTensor& bias) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({x, weight});  // linear_saves
    ctx->saved_data["bias"] = bias.has_value() && bias->defined();
    return linear_forward(x, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("linear");
    static const auto op = find_op<decltype(linear_backward_cpu)>("xrun::linear_backward");
    const auto saved = ctx->get_saved_variables();
    const bool has_bias = ctx->saved_data["bias"].toBool();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dx, dweight, dbias] =
        op.call(grads[0].contiguous(), saved[0], saved[1], ctx->needs_input_grad(0),
                ctx->needs_input_grad(1), has_bias && ctx->needs_input_grad(2));
    return {dx, dweight, dbias};
  }
};

at::Tensor linear_with_graph(const at::Tensor& x, const at::Tensor& weight,
                             const OptionalTensor& bias) {
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
  m.impl("linear_forward", linear_cpu);
  m.impl("linear_backward", linear_backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("linear", linear_forward);
  m.impl("linear_forward", linear_composed);
  m.impl("linear_backward", linear_backward_composed);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("linear", linear_with_graph); }

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  GemmType gemm) {
  if (gemm == GemmType::kStorage || x.scalar_type() == at::kFloat) {
    return at::linear(x, weight, bias);
  }
  static const auto op = find_op<decltype(linear_forward)>("xrun::linear");
  return op.call(x, weight, bias.defined() ? OptionalTensor(bias) : std::nullopt);
}

at::Tensor low_rank(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                    GemmType gemm) {
  return linear(linear(x, a, {}, gemm).mul(scale), b, {}, gemm);
}

void linear_saves(SavedTensors& saved, const std::string& x, double width, bool trained,
                  GemmType gemm) {
  if (trained || gemm == GemmType::kFloat) saved.add(x, width);
}

double linear_scratch(double tokens, double in, double out, c10::ScalarType dtype, GemmType gemm) {
  if (gemm != GemmType::kFloat || dtype == at::kFloat) return 0;
  // x of one map is as wide as y of the next, so both buffers grow to the wider of the two.
  return 2 * scratch_bytes(tokens * std::max(in, out)) + scratch_bytes(in * out);
}

const char* gemm_name(GemmType gemm) { return gemm == GemmType::kStorage ? "storage" : "fp32"; }

}  // namespace xrun
