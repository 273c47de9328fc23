#include "core/model/ops/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/base/error.h"
#include "core/model/ops/op_call.h"
#include "core/model/ops/op_check.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

namespace {

// Rows of one partial sum of the weight's gradient: a constant, so that the order of additions
// does not depend on the number of threads.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kGrainElements = 16384;

bool has_kernel(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
}

template <class T>
T* data(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

// Returns the width of the rows.
int64_t check_inputs(const at::Tensor& x, const at::Tensor& weight) {
  check_kernel_type("rms_norm", "x", x);
  XRUN_CHECK(x.dim() > 0 && x.size(-1) > 0, "rms_norm: x is [{}], wanted rows of at least one",
             fmt::join(x.sizes(), ", "));
  check_floating("rms_norm", "weight", weight);
  check_sizes("rms_norm", "weight", weight, {x.size(-1)});
  return x.size(-1);
}

using Forward = std::tuple<at::Tensor, at::Tensor>;

// Returns y as x, and rstd [rows] fp32.
Forward forward_cpu(const at::Tensor& x_any, const at::Tensor& weight, double eps) {
  const int64_t width = check_inputs(x_any, weight), rows = x_any.numel() / width;
  const at::Tensor x = x_any.contiguous(), w = weight.to(at::kFloat).contiguous();
  at::Tensor y = at::empty_like(x), rstd = at::empty({rows}, at::kFloat);
  const auto run = [&](auto kernel, auto* unit) {
    using T = std::remove_pointer_t<decltype(unit)>;
    at::parallel_for(
        0, rows, std::max<int64_t>(1, kGrainElements / width), [&](int64_t begin, int64_t end) {
          kernel({data<T>(x) + begin * width, data<float>(w), data<T>(y) + begin * width,
                  data<float>(rstd) + begin, end - begin, width, static_cast<float>(eps)});
        });
  };
  const kernels::CpuKernels& k = kernels::cpu_kernels();
  if (x.scalar_type() == at::kFloat) {
    run(k.rms_norm_f32, static_cast<float*>(nullptr));
  } else {
    run(k.rms_norm_bf16, static_cast<kernels::Bf16*>(nullptr));
  }
  return {y, rstd};
}

using Backward = std::tuple<at::Tensor, at::Tensor>;

// Returns dx as x, and dweight [D] fp32.
Backward backward_cpu(const at::Tensor& grad_any, const at::Tensor& x_any, const at::Tensor& weight,
                      const at::Tensor& rstd_any) {
  const int64_t width = check_inputs(x_any, weight), rows = x_any.numel() / width;
  check_floating("rms_norm", "grad", grad_any);
  check_sizes("rms_norm", "grad", grad_any, x_any.sizes());
  check_type("rms_norm", "rstd", rstd_any, at::kFloat);
  check_sizes("rms_norm", "rstd", rstd_any, {rows});
  const at::Tensor rstd = rstd_any.contiguous();
  const at::Tensor x = x_any.contiguous(), w = weight.to(at::kFloat).contiguous();
  const at::Tensor grad = grad_any.to(x.scalar_type()).contiguous();
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  at::Tensor dx = at::empty_like(x), partial = at::zeros({blocks, width}, at::kFloat);
  const auto run = [&](auto kernel, auto* unit) {
    using T = std::remove_pointer_t<decltype(unit)>;
    at::parallel_for(0, blocks, 1, [&](int64_t from, int64_t to) {
      for (int64_t block = from; block < to; ++block) {
        const int64_t begin = block * kBlockRows, n = std::min(kBlockRows, rows - begin);
        kernel({data<T>(grad) + begin * width, data<T>(x) + begin * width, data<float>(w),
                data<float>(rstd) + begin, data<T>(dx) + begin * width,
                data<float>(partial) + block * width, n, width});
      }
    });
  };
  const kernels::CpuKernels& k = kernels::cpu_kernels();
  if (x.scalar_type() == at::kFloat) {
    run(k.rms_norm_backward_f32, static_cast<float*>(nullptr));
  } else {
    run(k.rms_norm_backward_bf16, static_cast<kernels::Bf16*>(nullptr));
  }
  return {dx, at::sum(partial, 0)};
}

Forward call_forward(const at::Tensor& x, const at::Tensor& weight, double eps) {
  static const auto op = find_op<decltype(forward_cpu)>("xrun::rms_norm_forward");
  return op.call(x, weight, eps);
}

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& weight, double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [y, rstd] = call_forward(x, weight, eps);
    ctx->save_for_backward({x, weight, rstd});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("rms_norm");
    static const auto op = find_op<decltype(backward_cpu)>("xrun::rms_norm_backward");
    const auto saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dx, dweight] = op.call(grads[0], saved[0], saved[1], saved[2]);
    return {dx, dweight.to(saved[1].scalar_type()), {}};
  }
};

at::Tensor without_graph(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return std::get<0>(call_forward(x, weight, eps));
}

// The definition in ATen's words, for types without a kernel.
at::Tensor composed(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor mean = at::mean(at::square(wide), {-1}, /*keepdim=*/true);
  return wide.mul(at::rsqrt(mean.add(eps))).to(x.scalar_type()).mul(weight);
}

at::Tensor with_graph(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return RmsNormFunction::apply(x, weight, eps);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor");
  m.def("rms_norm_forward(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)");
  m.def("rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor rstd) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("rms_norm_forward", forward_cpu);
  m.impl("rms_norm_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) { m.impl("rms_norm", without_graph); }

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("rms_norm", with_graph); }

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (!has_kernel(x)) return composed(x, weight, eps);
  static const auto op = find_op<decltype(without_graph)>("xrun::rms_norm");
  return op.call(x, weight, eps);
}

}  // namespace xrun
