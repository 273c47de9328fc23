// y = round(x32 W32^T + b32); dx = round(dy32 W32), dW = round(dy32^T x32), db = round(sum dy32).

#include "core/model/ops/linear.h"

#include <ATen/ops/empty.h>
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

// Returns true if there is a bias. Throws Error for operands that do not fit, on any device.
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

// The reference: fp64, and devices without a kernel.
at::Tensor linear_composed(const at::Tensor& x, const at::Tensor& weight,
                           const OptionalTensor& bias) {
  const bool has_bias = check_linear(x, weight, bias);
  const at::ScalarType type = wide_type(x);
  const at::Tensor b = has_bias ? bias->to(type) : at::Tensor();
  return at::linear(x.to(type), weight.to(type), b).to(x.scalar_type());
}

// Returns x [T, in] weight^T [in, rows] + bias, computed in fp32 and rounded to the type of x. The
// fp32 product is in scratch memory if it must be rounded.
template <class Weight>
at::Tensor linear_by_row(const at::Tensor& x, const Weight& weight, int64_t rows,
                         const at::Tensor& bias) {
  const at::Tensor b = bias.defined() ? bias.to(at::kFloat).contiguous() : at::Tensor();
  const bool wide = x.scalar_type() == at::kFloat;
  const at::Tensor y =
      wide ? at::empty({x.size(0), rows}, x.options()) : scratch_matrix(x.size(0), rows);
  multiply_rows_into(y, upcast(x.contiguous()), weight, b);
  return wide ? y : y.to(x.scalar_type());
}

at::Tensor linear_cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  if (x.scalar_type() == at::kDouble) return linear_composed(x, weight, bias);
  const bool has_bias = check_linear(x, weight, bias);
  return linear_by_row(x, upcast(weight.contiguous()), weight.size(0),
                       has_bias ? *bias : at::Tensor());
}

// `x` is needed for the weight's gradient, and `weight` for that of x.
void check_linear_backward(const at::Tensor& grad, const OptionalTensor& x,
                           const OptionalTensor& weight, bool x_wanted, bool weight_wanted) {
  check_floating("linear", "grad", grad, grad.device());
  XRUN_CHECK(grad.dim() == 2, "linear: grad is [{}], wanted [T, out]",
             fmt::join(grad.sizes(), ", "));
  const auto check = [&](const char* name, const OptionalTensor& operand, int64_t rows) {
    XRUN_CHECK(operand.has_value() && operand->defined(),
               "linear: {} is missing, and a gradient needs it", name);
    check_type("linear", name, *operand, grad.scalar_type(), grad.device());
    XRUN_CHECK(operand->dim() == 2 && operand->size(0) == rows,
               "linear: {} is [{}], wanted {} rows as in grad [{}]", name,
               fmt::join(operand->sizes(), ", "), rows, fmt::join(grad.sizes(), ", "));
  };
  if (x_wanted) check("weight", weight, grad.size(1));
  if (weight_wanted) check("x", x, grad.size(0));
}

// The products of at::linear's own backward, in the same order: fp32 gradients have its bits.
LinearBackward linear_backward_composed(const at::Tensor& grad, const OptionalTensor& x,
                                        const OptionalTensor& weight, bool x_wanted,
                                        bool weight_wanted, bool bias_wanted) {
  check_linear_backward(grad, x, weight, x_wanted, weight_wanted);
  const at::ScalarType type = grad.scalar_type(), wide = wide_type(grad);
  const at::Tensor dy = grad.to(wide);
  LinearBackward result;
  auto& [dx, dweight, dbias] = result;
  if (x_wanted) dx = at::mm(dy, weight->to(wide)).to(type);
  if (weight_wanted) dweight = at::mm(dy.t(), x->to(wide)).to(type);
  if (bias_wanted) dbias = dy.sum(0).to(type);
  return result;
}

// For fp32 and narrower types; fp64 is composed.
LinearBackward linear_backward_cpu(const at::Tensor& grad, const OptionalTensor& x,
                                   const OptionalTensor& weight, bool x_wanted, bool weight_wanted,
                                   bool bias_wanted) {
  const at::ScalarType type = grad.scalar_type();
  if (type != at::kFloat && wide_type(grad) == type) {  // nothing to upcast
    return linear_backward_composed(grad, x, weight, x_wanted, weight_wanted, bias_wanted);
  }
  check_linear_backward(grad, x, weight, x_wanted, weight_wanted);
  // Gradients need the same bits each time, but no fixed order for each row, so the fastest library
  // multiplies: from 128 rows up in less than half of at::mm's time (Zen 5).
  const at::Tensor dy = upcast(grad);
  const auto product_of = [&](int64_t rows, int64_t columns, const at::Tensor& a,
                              const at::Tensor& b) {
    at::Tensor product = type == at::kFloat ? at::empty({rows, columns}, grad.options())
                                            : scratch_matrix(rows, columns);
    multiply_into(product, a, b);
    return product.to(type);
  };
  LinearBackward result;
  auto& [dx, dweight, dbias] = result;
  if (x_wanted) dx = product_of(grad.size(0), weight->size(1), dy, upcast(*weight));
  if (weight_wanted) dweight = product_of(grad.size(1), x->size(1), dy.t(), upcast(*x));
  if (bias_wanted) dbias = dy.sum(0).to(type);
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
    // A frozen weight needs no x, and an x without a gradient no weight. Undefined tensors take no
    // memory.
    const at::Tensor none;
    ctx->save_for_backward({weight.requires_grad() ? x : none, x.requires_grad() ? weight : none});
    ctx->saved_data["bias"] = bias.has_value() && bias->defined();
    return linear_forward(x, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("linear");
    static const auto op = find_op<decltype(linear_backward_cpu)>("xrun::linear_backward");
    const auto saved = ctx->get_saved_variables();
    const auto given = [](const at::Tensor& t) {
      return t.defined() ? OptionalTensor(t) : std::nullopt;
    };
    const bool has_bias = ctx->saved_data["bias"].toBool();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dx, dweight, dbias] =
        op.call(grads[0].contiguous(), given(saved[0]), given(saved[1]), ctx->needs_input_grad(0),
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
      "linear_backward(Tensor grad, Tensor? x, Tensor? weight, bool x_wanted, bool weight_wanted, "
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
  const at::ScalarType type = x.scalar_type();
  // In our kernel a row's bits do not depend on the rows beside it, so that they are the same in
  // training and sampling. Where that is not needed, the library is faster.
  const bool by_row = type == at::kFloat ? x.device().is_cpu() : gemm == GemmType::kFloat;
  if (!by_row) return at::linear(x, weight, bias);
  static const auto op = find_op<decltype(linear_forward)>("xrun::linear");
  return op.call(x, weight, bias.defined() ? OptionalTensor(bias) : std::nullopt);
}

at::Tensor linear(const at::Tensor& x, const PackedMatrix& weight, const at::Tensor& bias) {
  XRUN_CHECK(x.dim() == 2 && x.size(1) == weight.inner,
             "linear: x is [{}], wanted [T, {}] for a packed weight", fmt::join(x.sizes(), ", "),
             weight.inner);
  return linear_by_row(x, weight, weight.rows, bias);
}

// Scales a x, the narrow tensor between the two products.
at::Tensor low_rank(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                    GemmType gemm) {
  return linear(linear(x, a, {}, gemm).mul(scale), b, {}, gemm);
}

void linear_saves(SavedTensors& saved, const std::string& x, double width, bool trained) {
  if (trained) saved.add(x, width);
}

double linear_scratch(double tokens, double in, double out, c10::ScalarType dtype, GemmType gemm) {
  if (gemm != GemmType::kFloat || dtype == at::kFloat) return 0;
  // x of one map is as wide as y of the next, so both buffers grow to the wider of the two.
  return 2 * scratch_bytes(tokens * std::max(in, out)) + scratch_bytes(in * out);
}

const char* gemm_name(GemmType gemm) { return gemm == GemmType::kStorage ? "storage" : "fp32"; }

}  // namespace xrun
