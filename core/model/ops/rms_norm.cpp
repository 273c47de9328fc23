// With xn = x rstd over a row of D: dx = rstd (g w - xn mean(g w xn)), dweight = sum over rows of g
// xn.

#include "core/model/ops/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/base/error.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

// Rows of one partial sum of the weight's gradient. Fixed, so that the order of additions does not
// depend on the number of threads.
constexpr int64_t kNormBlockRows = 64;

// y as x, rstd [rows]; dx as x, dweight [D]. rstd and dweight are fp32, or fp64 if x is.
using NormForward = std::tuple<at::Tensor, at::Tensor>;
using NormBackward = std::tuple<at::Tensor, at::Tensor>;

// Returns the width of the rows.
int64_t check_norm(const at::Tensor& x, const at::Tensor& weight) {
  check_floating("rms_norm", "x", x, x.device());
  XRUN_CHECK(x.dim() > 0 && x.size(-1) > 0, "rms_norm: x is [{}], wanted rows of at least one",
             fmt::join(x.sizes(), ", "));
  check_floating("rms_norm", "weight", weight, x.device());
  check_sizes("rms_norm", "weight", weight, {x.size(-1)}, x.device());
  return x.size(-1);
}

// Composed of ATen's operators, for devices without a kernel and for types that the kernel lacks.
NormForward rms_norm_composed(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_norm(x, weight);
  const at::Tensor wide = x.to(wide_type(x));
  const at::Tensor rstd = at::rsqrt(at::square(wide).mean(-1, /*keepdim=*/true).add(eps));
  // Rounded before the weight is applied, as in transformers.
  const at::Tensor normed = wide.mul(rstd).to(x.scalar_type());
  return {normed.mul(weight).to(x.scalar_type()), rstd.flatten()};
}

NormForward rms_norm_cpu(const at::Tensor& x_any, const at::Tensor& weight, double eps) {
  if (!has_kernel_type(x_any)) return rms_norm_composed(x_any, weight, eps);
  const int64_t width = check_norm(x_any, weight), rows = x_any.numel() / width;
  const at::Tensor x = x_any.contiguous(), w = weight.to(at::kFloat).contiguous();
  at::Tensor y = at::empty_like(x), rstd = at::empty({rows}, at::kFloat);
  with_kernel_type(x, [&](auto type_tag) {
    using T = decltype(type_tag);
    at::parallel_for(0, rows, std::max<int64_t>(1, kGrainElements / width),
                     [&](int64_t begin, int64_t end) {
                       kernels::cpu_kernels().run(kernels::RmsNorm<T>{
                           kernel_data<T>(x) + begin * width, kernel_data<float>(w),
                           kernel_data<T>(y) + begin * width, kernel_data<float>(rstd) + begin,
                           end - begin, width, static_cast<float>(eps)});
                     });
  });
  return {y, rstd};
}

// Returns the number of rows.
int64_t check_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& rstd) {
  const int64_t rows = x.numel() / check_norm(x, weight);
  check_floating("rms_norm", "grad", grad, x.device());
  check_sizes("rms_norm", "grad", grad, x.sizes(), x.device());
  check_type("rms_norm", "rstd", rstd, wide_type(x), x.device());
  check_sizes("rms_norm", "rstd", rstd, {rows}, x.device());
  return rows;
}

NormBackward rms_norm_backward_composed(const at::Tensor& grad, const at::Tensor& x,
                                        const at::Tensor& weight, const at::Tensor& rstd) {
  const int64_t rows = check_norm_backward(grad, x, weight, rstd), width = x.size(-1);
  // The formula of the kernel, so that a device without one differs only by rounding.
  const at::Tensor scale = rstd.unsqueeze(1);
  const at::ScalarType wide = wide_type(x);
  const at::Tensor xn = x.to(wide).reshape({rows, width}).mul(scale);
  const at::Tensor g = grad.to(x.scalar_type()).to(wide).reshape({rows, width});
  const at::Tensor gw = g.mul(weight.to(wide));
  const at::Tensor dot = gw.mul(xn).mean(-1, /*keepdim=*/true);
  const at::Tensor dx = gw.sub(xn.mul(dot)).mul(scale);
  return {dx.to(x.scalar_type()).view(x.sizes()), g.mul(xn).sum(0)};
}

NormBackward rms_norm_backward_cpu(const at::Tensor& grad_any, const at::Tensor& x_any,
                                   const at::Tensor& weight, const at::Tensor& rstd_any) {
  if (!has_kernel_type(x_any)) {
    return rms_norm_backward_composed(grad_any, x_any, weight, rstd_any);
  }
  const int64_t rows = check_norm_backward(grad_any, x_any, weight, rstd_any);
  const int64_t width = x_any.size(-1), blocks = (rows + kNormBlockRows - 1) / kNormBlockRows;
  const at::Tensor x = x_any.contiguous(), w = weight.to(at::kFloat).contiguous();
  const at::Tensor rstd = rstd_any.contiguous();
  // The gradient from autograd may differ in type or layout.
  const at::Tensor grad = grad_any.to(x.scalar_type()).contiguous();
  // dweight: one partial sum per block of rows, then their sum in order.
  at::Tensor dx = at::empty_like(x), partial = at::zeros({blocks, width}, at::kFloat);
  with_kernel_type(x, [&](auto type_tag) {
    using T = decltype(type_tag);
    at::parallel_for(0, blocks, 1, [&](int64_t from, int64_t to) {
      for (int64_t block = from; block < to; ++block) {
        const int64_t begin = block * kNormBlockRows, n = std::min(kNormBlockRows, rows - begin);
        kernels::cpu_kernels().run(kernels::RmsNormBackward<T>{
            kernel_data<T>(grad) + begin * width, kernel_data<T>(x) + begin * width,
            kernel_data<float>(w), kernel_data<float>(rstd) + begin,
            kernel_data<T>(dx) + begin * width, kernel_data<float>(partial) + block * width, n,
            width});
      }
    });
  });
  return {dx, at::sum(partial, 0)};
}

NormForward rms_norm_forward(const at::Tensor& x, const at::Tensor& weight, double eps) {
  static const auto op = find_op<decltype(rms_norm_cpu)>("xrun::rms_norm_forward");
  return op.call(x, weight, eps);
}

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& weight, double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [y, rstd] = rms_norm_forward(x, weight, eps);
    ctx->save_for_backward({x, weight, rstd});  // rms_norm_saves
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("rms_norm");
    static const auto op = find_op<decltype(rms_norm_backward_cpu)>("xrun::rms_norm_backward");
    const auto saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dx, dweight] = op.call(grads[0], saved[0], saved[1], saved[2]);
    // The weight has fp32 or the activation's type; its gradient gets the same type.
    return {dx, dweight.to(saved[1].scalar_type()), {}};
  }
};

at::Tensor rms_norm_without_graph(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return std::get<0>(rms_norm_forward(x, weight, eps));
}

at::Tensor rms_norm_with_graph(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return RmsNormFunction::apply(x, weight, eps);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor");
  m.def("rms_norm_forward(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)");
  m.def("rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor rstd) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("rms_norm_forward", rms_norm_cpu);
  m.impl("rms_norm_backward", rms_norm_backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("rms_norm", rms_norm_without_graph);
  m.impl("rms_norm_forward", rms_norm_composed);
  m.impl("rms_norm_backward", rms_norm_backward_composed);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("rms_norm", rms_norm_with_graph); }

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  static const auto op = find_op<decltype(rms_norm_without_graph)>("xrun::rms_norm");
  return op.call(x, weight, eps);
}

void rms_norm_saves(SavedTensors& saved, const std::string& x, double width, double rows) {
  saved.add(x, rows * width);
  saved.add_bytes(x + ".rstd", 4 * rows);
}

}  // namespace xrun
