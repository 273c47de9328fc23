#include "core/model/ops/rope.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/sin.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/base/error.h"
#include "core/model/ops/device.h"
#include "core/model/ops/op_call.h"
#include "core/model/ops/op_check.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

namespace {

constexpr int64_t kGrainElements = 16384;

template <class T>
T* data(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

void check_angles(const char* name, const at::Tensor& angles, const at::Tensor& x) {
  check_type("rope", name, angles, at::kFloat);
  check_sizes("rope", name, angles, {x.size(0), x.size(2) / 2});
}

// x [T, H, K], cos and sin [T, K/2] fp32; `inverse` rotates back.
at::Tensor rotate_cpu(const at::Tensor& x_any, const at::Tensor& cos_any, const at::Tensor& sin_any,
                      bool inverse) {
  check_kernel_type("rope", "x", x_any);
  XRUN_CHECK(x_any.dim() == 3 && x_any.size(2) % 2 == 0,
             "rope: x is [{}], wanted [T, H, K] with an even K", fmt::join(x_any.sizes(), ", "));
  check_angles("cos", cos_any, x_any);
  check_angles("sin", sin_any, x_any);
  const at::Tensor x = x_any.contiguous();
  const at::Tensor cos = cos_any.contiguous(), sin = sin_any.contiguous();
  const int64_t heads = x.size(1), head_dim = x.size(2), row = heads * head_dim;
  at::Tensor y = at::empty_like(x);
  if (x.numel() == 0) return y;
  const auto run = [&](auto kernel, auto* unit) {
    using T = std::remove_pointer_t<decltype(unit)>;
    at::parallel_for(
        0, x.size(0), std::max<int64_t>(1, kGrainElements / row), [&](int64_t begin, int64_t end) {
          const int64_t at = begin * (head_dim / 2);
          kernel({data<T>(x) + begin * row, data<T>(y) + begin * row, data<float>(cos) + at,
                  data<float>(sin) + at, end - begin, heads, head_dim, inverse});
        });
  };
  const kernels::CpuKernels& k = kernels::cpu_kernels();
  if (x.scalar_type() == at::kFloat) {
    run(k.rope_f32, static_cast<float*>(nullptr));
  } else {
    run(k.rope_bf16, static_cast<kernels::Bf16*>(nullptr));
  }
  return y;
}

at::Tensor call_rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                       bool inverse) {
  static const auto op = find_op<decltype(rotate_cpu)>("xrun::rope_rotate");
  return op.call(x, cos, sin, inverse);
}

class RopeFunction : public torch::autograd::Function<RopeFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& cos, const at::Tensor& sin) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({cos, sin});
    return call_rotate(x, cos, sin, false);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("rope");
    const auto saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    return {call_rotate(grads[0], saved[0], saved[1], true), {}, {}};
  }
};

at::Tensor without_graph(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return call_rotate(x, cos, sin, false);
}

at::Tensor with_graph(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return RopeFunction::apply(x, cos, sin);
}

// The definition in ATen's words, for types without a kernel.
at::Tensor composed(const at::Tensor& x, const RopeAngles& angles) {
  const int64_t half = x.size(2) / 2;
  const at::Tensor low = x.narrow(2, 0, half), high = x.narrow(2, half, half);
  const at::Tensor c = angles.cos.unsqueeze(1), s = angles.sin.unsqueeze(1);
  return at::cat({low.mul(c).sub(high.mul(s)), high.mul(c).add(low.mul(s))}, 2).to(x.scalar_type());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("rope(Tensor x, Tensor cos, Tensor sin) -> Tensor");
  m.def("rope_rotate(Tensor x, Tensor cos, Tensor sin, bool inverse) -> Tensor");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) { m.impl("rope_rotate", rotate_cpu); }

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) { m.impl("rope", without_graph); }

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("rope", with_graph); }

bool rope_by_length(const RopeConfig& rope) {
  return rope.type == RopeConfig::Type::kDynamic || rope.type == RopeConfig::Type::kLongrope;
}

RopeAngles rope_angles(const RopeConfig& rope, int64_t head_dim, const at::Tensor& position_ids,
                       const std::vector<int64_t>& cu_seqlens, at::ScalarType type,
                       c10::Device device) {
  const at::Tensor position = on_device(position_ids, device).to(at::kFloat);
  const auto frequencies = [&](int64_t length) {
    return on_device(rope_inverse_frequencies(rope, head_dim, length), device);
  };
  at::Tensor angle;
  if (rope_by_length(rope)) {
    angle = at::empty({position.size(0), head_dim / 2}, position.options());
    for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
      const int64_t begin = cu_seqlens[s], n = cu_seqlens[s + 1] - begin;
      if (n == 0) continue;
      const int64_t length = position_ids[begin + n - 1].item<int64_t>() + 1;
      angle.narrow(0, begin, n).copy_(at::outer(position.narrow(0, begin, n), frequencies(length)));
    }
  } else {
    angle = at::outer(position, frequencies(0));
  }
  const auto rounded = [&](const at::Tensor& x) {
    return x.mul(rope.attention_factor).to(type).to(at::kFloat);
  };
  return {rounded(at::cos(angle)), rounded(at::sin(angle))};
}

at::Tensor rope(const at::Tensor& x, const RopeAngles& angles) {
  const bool has_kernel = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  if (!has_kernel) return composed(x, angles);
  static const auto op = find_op<decltype(without_graph)>("xrun::rope");
  return op.call(x, angles.cos, angles.sin);
}

}  // namespace xrun
