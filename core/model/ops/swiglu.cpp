// y = silu(g) u. With s the logistic of g: silu(g) = g s, silu'(g) = s (1 + g (1 - s)), so
//   dg = dy u s (1 + g (1 - s)),  du = dy g s.

#include "core/model/ops/swiglu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/model/ops/op.h"

namespace xrun {

namespace {

using SwiGluGradients = std::tuple<at::Tensor, at::Tensor>;  // dgate, dup

void check_swiglu(const at::Tensor& gate, const at::Tensor& up) {
  check_floating("swiglu", "gate", gate, gate.device());
  check_type("swiglu", "up", up, gate.scalar_type(), gate.device());
  check_sizes("swiglu", "up", up, gate.sizes(), gate.device());
}

// Made of ATen's operators, for devices without a kernel and for types that the kernel lacks.
at::Tensor swiglu_composed(const at::Tensor& gate, const at::Tensor& up) {
  check_swiglu(gate, up);
  return at::silu(gate).mul(up);
}

at::Tensor swiglu_cpu(const at::Tensor& gate_any, const at::Tensor& up_any) {
  if (!has_kernel_type(gate_any)) return swiglu_composed(gate_any, up_any);
  check_swiglu(gate_any, up_any);
  // Elementwise, so the kernel reads one flat range.
  const at::Tensor gate = gate_any.contiguous(), up = up_any.contiguous();
  at::Tensor y = at::empty_like(gate);
  with_kernel_type(gate, [&](auto type_tag) {
    using T = decltype(type_tag);
    at::parallel_for(0, gate.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
      kernels::cpu_kernels().run(kernels::SwiGlu<T>{kernel_data<T>(gate) + begin,
                                                    kernel_data<T>(up) + begin,
                                                    kernel_data<T>(y) + begin, end - begin});
    });
  });
  return y;
}

// The types of grad and gate may differ: autograd does not promise one.
void check_swiglu_backward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  check_swiglu(gate, up);
  check_floating("swiglu", "grad", grad, gate.device());
  check_sizes("swiglu", "grad", grad, gate.sizes(), gate.device());
}

SwiGluGradients swiglu_backward_composed(const at::Tensor& grad, const at::Tensor& gate,
                                         const at::Tensor& up) {
  check_swiglu_backward(grad, gate, up);
  const at::ScalarType type = gate.scalar_type(), wide = wide_type(gate);
  // d silu(g) / dg = s (1 + g (1 - s)), s = sigmoid(g); rounded once, at the end.
  const at::Tensor g = gate.to(wide), dy = grad.to(type).to(wide);
  const at::Tensor s = at::sigmoid(g), slope = g.mul(s.neg().add_(1)).add_(1);
  return {dy.mul(up.to(wide)).mul_(s).mul_(slope).to(type), dy.mul(g.mul(s)).to(type)};
}

SwiGluGradients swiglu_backward_cpu(const at::Tensor& grad_any, const at::Tensor& gate_any,
                                    const at::Tensor& up_any) {
  if (!has_kernel_type(gate_any)) return swiglu_backward_composed(grad_any, gate_any, up_any);
  check_swiglu_backward(grad_any, gate_any, up_any);
  const at::Tensor gate = gate_any.contiguous(), up = up_any.contiguous();
  const at::Tensor grad = grad_any.to(gate.scalar_type()).contiguous();
  at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
  with_kernel_type(gate, [&](auto type_tag) {
    using T = decltype(type_tag);
    at::parallel_for(0, gate.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
      kernels::cpu_kernels().run(kernels::SwiGluBackward<T>{
          kernel_data<T>(grad) + begin, kernel_data<T>(gate) + begin, kernel_data<T>(up) + begin,
          kernel_data<T>(dgate) + begin, kernel_data<T>(dup) + begin, end - begin});
    });
  });
  return {dgate, dup};
}

// The op without a graph; models call xrun::swiglu, whose Autograd form is SwiGluFunction.
at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = find_op<decltype(swiglu_cpu)>("xrun::swiglu_forward");
  return op.call(gate, up);
}

class SwiGluFunction : public torch::autograd::Function<SwiGluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& gate,
                            const at::Tensor& up) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({gate, up});  // swiglu_saves
    return swiglu_forward(gate, up);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("swiglu");
    static const auto op = find_op<decltype(swiglu_backward_cpu)>("xrun::swiglu_backward");
    const auto saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dgate, dup] = op.call(grads[0], saved[0], saved[1]);
    return {dgate, dup};
  }
};

at::Tensor swiglu_with_graph(const at::Tensor& gate, const at::Tensor& up) {
  return SwiGluFunction::apply(gate, up);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_forward(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("swiglu_forward", swiglu_cpu);
  m.impl("swiglu_backward", swiglu_backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("swiglu", swiglu_forward);
  m.impl("swiglu_forward", swiglu_composed);
  m.impl("swiglu_backward", swiglu_backward_composed);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("swiglu", swiglu_with_graph); }

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = find_op<decltype(swiglu_cpu)>("xrun::swiglu");
  return op.call(gate, up);
}

void swiglu_saves(SavedTensors& saved, double width) {
  saved.add("gate", width);
  saved.add("up", width);
}

// forward: gate and up; the product is not counted, since its memory is freed with that of up.
// backward: dgate and dup; the gradient of the product is freed as they are made.
Temporaries swiglu_temporaries(double width) {
  return {.forward = 2 * width, .backward = 2 * width};
}

}  // namespace xrun
