#include "core/model/ops/swiglu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/model/ops/op_call.h"
#include "core/model/ops/op_check.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

namespace {

constexpr int64_t kGrain = 16384;  // elements below which a thread costs more than it saves

template <class T>
T* data(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

void check_inputs(const at::Tensor& gate, const at::Tensor& up) {
  check_kernel_type("swiglu", "gate", gate);
  check_type("swiglu", "up", up, gate.scalar_type());
  check_sizes("swiglu", "up", up, gate.sizes());
}

at::Tensor forward_cpu(const at::Tensor& gate_any, const at::Tensor& up_any) {
  check_inputs(gate_any, up_any);
  const at::Tensor gate = gate_any.contiguous(), up = up_any.contiguous();
  at::Tensor y = at::empty_like(gate);
  const auto run = [&](auto kernel, auto* unit) {
    using T = std::remove_pointer_t<decltype(unit)>;
    at::parallel_for(0, gate.numel(), kGrain, [&](int64_t begin, int64_t end) {
      kernel({data<T>(gate) + begin, data<T>(up) + begin, data<T>(y) + begin, end - begin});
    });
  };
  const kernels::CpuKernels& k = kernels::cpu_kernels();
  if (gate.scalar_type() == at::kFloat) {
    run(k.swiglu_f32, static_cast<float*>(nullptr));
  } else {
    run(k.swiglu_bf16, static_cast<kernels::Bf16*>(nullptr));
  }
  return y;
}

using Backward = std::tuple<at::Tensor, at::Tensor>;

Backward backward_cpu(const at::Tensor& grad_any, const at::Tensor& gate_any,
                      const at::Tensor& up_any) {
  check_inputs(gate_any, up_any);
  check_floating("swiglu", "grad", grad_any);
  check_sizes("swiglu", "grad", grad_any, gate_any.sizes());
  const at::Tensor gate = gate_any.contiguous(), up = up_any.contiguous();
  const at::Tensor grad = grad_any.to(gate.scalar_type()).contiguous();
  at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
  const auto run = [&](auto kernel, auto* unit) {
    using T = std::remove_pointer_t<decltype(unit)>;
    at::parallel_for(0, gate.numel(), kGrain, [&](int64_t begin, int64_t end) {
      kernel({data<T>(grad) + begin, data<T>(gate) + begin, data<T>(up) + begin,
              data<T>(dgate) + begin, data<T>(dup) + begin, end - begin});
    });
  };
  const kernels::CpuKernels& k = kernels::cpu_kernels();
  if (gate.scalar_type() == at::kFloat) {
    run(k.swiglu_backward_f32, static_cast<float*>(nullptr));
  } else {
    run(k.swiglu_backward_bf16, static_cast<kernels::Bf16*>(nullptr));
  }
  return {dgate, dup};
}

at::Tensor call_forward(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = find_op<decltype(forward_cpu)>("xrun::swiglu_forward");
  return op.call(gate, up);
}

class SwiGluFunction : public torch::autograd::Function<SwiGluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& gate,
                            const at::Tensor& up) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({gate, up});
    return call_forward(gate, up);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("swiglu");
    static const auto op = find_op<decltype(backward_cpu)>("xrun::swiglu_backward");
    const auto saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dgate, dup] = op.call(grads[0], saved[0], saved[1]);
    return {dgate, dup};
  }
};

at::Tensor with_graph(const at::Tensor& gate, const at::Tensor& up) {
  return SwiGluFunction::apply(gate, up);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_forward(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("swiglu_forward", forward_cpu);
  m.impl("swiglu_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) { m.impl("swiglu", call_forward); }

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("swiglu", with_graph); }

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const bool has_kernel = gate.scalar_type() == at::kFloat || gate.scalar_type() == at::kBFloat16;
  if (!has_kernel) return at::silu(gate).mul(up);
  static const auto op = find_op<decltype(call_forward)>("xrun::swiglu");
  return op.call(gate, up);
}

}  // namespace xrun
