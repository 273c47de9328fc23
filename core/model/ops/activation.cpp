// Our kernel computes y = f(x). ATen computes dx = dy f'(x): that it rounds otherwise at the end of
// a loop does not matter for a gradient.

#include "core/model/ops/activation.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/model/ops/op.h"

namespace xrun {

namespace {

using kernels::ActivationCurve;

// The names of ATen's two forms.
const char* gelu_form(ActivationCurve curve) {
  return curve == ActivationCurve::kGeluTanh ? "tanh" : "none";
}

at::Tensor activation_cpu(const at::Tensor& x_any, ActivationCurve curve) {
  const at::Tensor x = x_any.contiguous();
  at::Tensor y = at::empty_like(x);
  with_kernel_type(x, [&](auto type_tag) {
    using T = decltype(type_tag);
    // Any split gives the same bits, since the kernel treats the end of a range like its middle.
    at::parallel_for(0, x.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
      kernels::cpu_kernels().run(kernels::ActivationRows<T>{
          kernel_data<T>(x) + begin, kernel_data<T>(y) + begin, end - begin, curve});
    });
  });
  return y;
}

class ActivationFunction : public torch::autograd::Function<ActivationFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            int64_t curve) {
    // Below autograd: the kernel's own calls must not be recorded.
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({x});  // activation_saves
    ctx->saved_data["curve"] = curve;
    return activation_cpu(x, static_cast<ActivationCurve>(curve));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("activation");
    const auto curve = static_cast<ActivationCurve>(ctx->saved_data["curve"].toInt());
    const at::Tensor x = ctx->get_saved_variables()[0];
    if (curve == ActivationCurve::kSilu) return {at::silu_backward(grads[0], x), {}};
    return {at::gelu_backward(grads[0], x, gelu_form(curve)), {}};
  }
};

// Other devices and fp64 take ATen's forms, whose gradients are ATen's.
at::Tensor activation_of(const at::Tensor& x, ActivationCurve curve) {
  if (x.device().is_cpu() && has_kernel_type(x)) {
    return ActivationFunction::apply(x, static_cast<int64_t>(curve));
  }
  return curve == ActivationCurve::kSilu ? at::silu(x) : at::gelu(x, gelu_form(curve));
}

}  // namespace

at::Tensor silu(const at::Tensor& x) { return activation_of(x, ActivationCurve::kSilu); }
at::Tensor gelu(const at::Tensor& x) { return activation_of(x, ActivationCurve::kGelu); }
at::Tensor gelu_tanh(const at::Tensor& x) { return activation_of(x, ActivationCurve::kGeluTanh); }

void activation_saves(SavedTensors& saved, double width, bool gated) {
  saved.add("up", width);
  if (!gated) return;
  saved.add("gate", width);
  saved.add("activated_gate", width);
}

// One result, or two if the gate's result is multiplied by "up".
Temporaries activation_temporaries(double width, bool gated) {
  const double maps = gated ? 2 : 1;
  return {.forward = maps * width, .backward = maps * width};
}

}  // namespace xrun
