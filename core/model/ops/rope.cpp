// (a, b) -> (a c - b s, b c + a s) over the pairs (i, i + K/2) of each head (Su et al. 2021, with
// the pairs of transformers). A rotation's gradient is the inverse rotation, so only the angles are
// saved.

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
#include "core/model/ops/op.h"

namespace xrun {

namespace {

// Every row has its own cos and sin, since a position may have other angles in another segment.
void check_rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  check_floating("rope", "x", x, x.device());
  XRUN_CHECK(x.dim() == 3 && x.size(2) % 2 == 0, "rope: x is [{}], wanted [T, H, K] with an even K",
             fmt::join(x.sizes(), ", "));
  for (const auto& [name, angles] : {std::pair{"cos", &cos}, std::pair{"sin", &sin}}) {
    check_type("rope", name, *angles, at::kFloat, x.device());
    check_sizes("rope", name, *angles, {x.size(0), x.size(2) / 2}, x.device());
  }
}

at::Tensor rope_rotate_composed(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                                bool inverse) {
  check_rope(x, cos, sin);
  const int64_t half = x.size(2) / 2;
  // a = x[..., :K/2], b = x[..., K/2:].
  const at::Tensor low = x.narrow(2, 0, half).to(wide_type(x));
  const at::Tensor high = x.narrow(2, half, half).to(wide_type(x));
  const at::Tensor c = cos.unsqueeze(1), s = inverse ? sin.neg().unsqueeze(1) : sin.unsqueeze(1);
  return at::cat({low.mul(c).sub_(high.mul(s)), high.mul(c).add_(low.mul(s))}, 2)
      .to(x.scalar_type());
}

// x is [T, H, K], cos and sin are [T, K/2] fp32; `inverse` rotates back.
at::Tensor rope_rotate_cpu(const at::Tensor& x_any, const at::Tensor& cos_any,
                           const at::Tensor& sin_any, bool inverse) {
  if (!has_kernel_type(x_any)) return rope_rotate_composed(x_any, cos_any, sin_any, inverse);
  check_rope(x_any, cos_any, sin_any);
  const at::Tensor x = x_any.contiguous();
  const at::Tensor cos = cos_any.contiguous(), sin = sin_any.contiguous();
  const int64_t heads = x.size(1), head_dim = x.size(2), row = heads * head_dim;
  at::Tensor y = at::empty_like(x);
  if (x.numel() == 0) return y;
  with_kernel_type(x, [&](auto type_tag) {
    using T = decltype(type_tag);
    at::parallel_for(
        0, x.size(0), std::max<int64_t>(1, kGrainElements / row), [&](int64_t begin, int64_t end) {
          const int64_t at = begin * (head_dim / 2);
          kernels::cpu_kernels().run(
              kernels::Rope<T>{kernel_data<T>(x) + begin * row, kernel_data<T>(y) + begin * row,
                               kernel_data<float>(cos) + at, kernel_data<float>(sin) + at,
                               end - begin, heads, head_dim, inverse});
        });
  });
  return y;
}

// One op for both directions: the inverse only negates the sine.
at::Tensor rope_rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                       bool inverse) {
  static const auto op = find_op<decltype(rope_rotate_cpu)>("xrun::rope_rotate");
  return op.call(x, cos, sin, inverse);
}

// The layers of a forward share the angles that it saves.
class RopeFunction : public torch::autograd::Function<RopeFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& cos, const at::Tensor& sin) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({cos, sin});
    return rope_rotate(x, cos, sin, false);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("rope");
    const auto saved = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    return {rope_rotate(grads[0], saved[0], saved[1], true), {}, {}};
  }
};

at::Tensor rope_without_graph(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return rope_rotate(x, cos, sin, false);
}

at::Tensor rope_with_graph(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return RopeFunction::apply(x, cos, sin);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("rope(Tensor x, Tensor cos, Tensor sin) -> Tensor");
  m.def("rope_rotate(Tensor x, Tensor cos, Tensor sin, bool inverse) -> Tensor");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) { m.impl("rope_rotate", rope_rotate_cpu); }

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("rope", rope_without_graph);
  m.impl("rope_rotate", rope_rotate_composed);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("rope", rope_with_graph); }

bool rope_by_length(const RopeConfig& rope) {
  return rope.type == RopeConfig::Type::kDynamic || rope.type == RopeConfig::Type::kLongrope;
}

RopeAngles rope_angles(const RopeConfig& rope, int64_t head_dim, const RopePositions& positions,
                       at::ScalarType type, c10::Device device) {
  const std::vector<int64_t>& cu_seqlens = positions.cu_seqlens;
  // Angles in fp32: bf16 has 8 bits, and positions above 256 would collide.
  const at::Tensor position = on_device(positions.ids, device).to(at::kFloat);
  const auto frequencies = [&](int64_t length) {
    return on_device(rope_inverse_frequencies(rope, head_dim, length), device);
  };
  at::Tensor angle;
  if (rope_by_length(rope)) {
    angle = at::empty({position.size(0), head_dim / 2}, position.options());
    for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
      const int64_t begin = cu_seqlens[s], n = cu_seqlens[s + 1] - begin;
      if (n == 0) continue;
      // Frequencies follow from the length that a segment has reached, as in a forward of it alone.
      const int64_t length = positions.lengths.empty()
                                 ? positions.ids[begin + n - 1].item<int64_t>() + 1
                                 : positions.lengths[s];
      angle.narrow(0, begin, n).copy_(at::outer(position.narrow(0, begin, n), frequencies(length)));
    }
  } else {
    angle = at::outer(position, frequencies(0));  // the same for every length
  }
  // transformers rounds cos and sin to the activation type before it rotates
  const auto rounded = [&](const at::Tensor& x) {
    return x.mul(rope.attention_factor).to(type).to(at::kFloat);
  };
  return {rounded(at::cos(angle)), rounded(at::sin(angle))};
}

at::Tensor rope(const at::Tensor& x, const RopeAngles& angles) {
  static const auto op = find_op<decltype(rope_without_graph)>("xrun::rope");
  return op.call(x, angles.cos, angles.sin);
}

}  // namespace xrun
