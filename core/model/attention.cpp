// Each segment is one call of ATen's flash attention on strided views of the pack: grouped key
// heads become the batch dimension, query heads of a group the head dimension, and the key's head
// stride zero, so that no key is copied. Short segments run in parallel with each other, long ones
// in parallel within.

#include "core/model/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/op_call.h"
#include "core/model/op_check.h"

namespace xrun {

namespace {

// A segment this long gives every thread work by itself.
constexpr int64_t kLongSegment = 512;

struct Shape {
  int64_t tokens, groups, heads_a_group, head_dim;
};

Shape shape_of(const at::Tensor& q, const at::Tensor& k) {
  return {q.size(0), k.size(1), q.size(1) / k.size(1), q.size(2)};
}

// [T, H, K] -> the segment as [G, H/G, n, K].
at::Tensor query_view(const at::Tensor& q, const Shape& s, int64_t begin, int64_t n) {
  return q.narrow(0, begin, n)
      .view({n, s.groups, s.heads_a_group, s.head_dim})
      .permute({1, 2, 0, 3});
}

// [T, G, K] -> the segment as [G, H/G (stride 0), n, K].
at::Tensor key_view(const at::Tensor& k, const Shape& s, int64_t begin, int64_t n) {
  return k.narrow(0, begin, n)
      .permute({1, 0, 2})
      .unsqueeze(1)
      .expand({s.groups, s.heads_a_group, n, s.head_dim});
}

// The segment's part of lse [T * H], as [G, H/G, n].
at::Tensor lse_view(const at::Tensor& lse, const Shape& s, int64_t begin, int64_t n) {
  const int64_t heads = s.groups * s.heads_a_group;
  return lse.narrow(0, begin * heads, n * heads).view({s.groups, s.heads_a_group, n});
}

// Calls f(begin, n) for every non-empty segment, on several threads at once.
template <class F>
void each_segment(at::IntArrayRef cu_seqlens, F f) {
  std::vector<std::pair<int64_t, int64_t>> brief;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    const int64_t begin = cu_seqlens[s], n = cu_seqlens[s + 1] - begin;
    if (n >= kLongSegment) f(begin, n);
    if (n > 0 && n < kLongSegment) brief.emplace_back(begin, n);
  }
  if (brief.size() == 1) return f(brief[0].first, brief[0].second);
  at::parallel_for(0, static_cast<int64_t>(brief.size()), 1, [&](int64_t from, int64_t to) {
    at::AutoDispatchBelowADInplaceOrView below;  // the guard is per thread
    for (int64_t i = from; i < to; ++i) f(brief[i].first, brief[i].second);
  });
}

void check_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  at::IntArrayRef cu_seqlens) {
  XRUN_CHECK(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                 q.size(2) == k.size(2) && k.size(1) > 0 && q.size(1) > 0 && q.size(2) > 0 &&
                 q.size(1) % k.size(1) == 0,
             "varlen_attention: q is [{}], k [{}], v [{}]; wanted q [T, H, K] and k, v [T, G, K] "
             "with G dividing H and K above 0",
             fmt::join(q.sizes(), ", "), fmt::join(k.sizes(), ", "), fmt::join(v.sizes(), ", "));
  check_floating("varlen_attention", "q", q);
  check_type("varlen_attention", "k", k, q.scalar_type());
  check_type("varlen_attention", "v", v, q.scalar_type());
  XRUN_CHECK(!cu_seqlens.empty() && cu_seqlens.front() == 0 && cu_seqlens.back() == q.size(0) &&
                 std::is_sorted(cu_seqlens.begin(), cu_seqlens.end()),
             "varlen_attention: cu_seqlens must rise from 0 to {}", q.size(0));
}

using Forward = std::tuple<at::Tensor, at::Tensor>;

// Returns out [T, H, K] and lse [T * H] fp32, segment by segment as [H, n].
Forward forward_cpu(const at::Tensor& q_any, const at::Tensor& k_any, const at::Tensor& v_any,
                    at::IntArrayRef cu_seqlens, double scale) {
  check_inputs(q_any, k_any, v_any, cu_seqlens);
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  const Shape s = shape_of(q, k);
  const at::Tensor out = at::empty_like(q);
  const at::Tensor lse = at::empty({q.size(0) * q.size(1)}, at::kFloat);
  each_segment(cu_seqlens, [&](int64_t begin, int64_t n) {
    auto [y, l] = at::_scaled_dot_product_flash_attention_for_cpu(
        query_view(q, s, begin, n), key_view(k, s, begin, n), key_view(v, s, begin, n), 0.0,
        /*is_causal=*/true, {}, scale);
    query_view(out, s, begin, n).copy_(y);
    lse_view(lse, s, begin, n).copy_(l);
  });
  return {out, lse};
}

using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Backward backward_cpu(const at::Tensor& grad_any, const at::Tensor& q_any, const at::Tensor& k_any,
                      const at::Tensor& v_any, const at::Tensor& out_any, const at::Tensor& lse_any,
                      at::IntArrayRef cu_seqlens, double scale) {
  check_inputs(q_any, k_any, v_any, cu_seqlens);
  for (const auto& [name, x] : {std::pair{"grad", &grad_any}, std::pair{"out", &out_any}}) {
    check_type("varlen_attention", name, *x, q_any.scalar_type());
    check_sizes("varlen_attention", name, *x, q_any.sizes());
  }
  check_type("varlen_attention", "lse", lse_any, at::kFloat);
  check_sizes("varlen_attention", "lse", lse_any, {q_any.size(0) * q_any.size(1)});
  const at::Tensor grad = grad_any.contiguous();
  const at::Tensor out = out_any.contiguous(), lse = lse_any.contiguous();
  const at::Tensor q = q_any.contiguous(), k = k_any.contiguous(), v = v_any.contiguous();
  const Shape s = shape_of(q, k);
  const at::Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  each_segment(cu_seqlens, [&](int64_t begin, int64_t n) {
    auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        query_view(grad, s, begin, n), query_view(q, s, begin, n), key_view(k, s, begin, n),
        key_view(v, s, begin, n), query_view(out, s, begin, n), lse_view(lse, s, begin, n), 0.0,
        /*is_causal=*/true, {}, scale);
    query_view(dq, s, begin, n).copy_(gq);
    // query heads of a group share their key head
    dk.narrow(0, begin, n).copy_(gk.sum(1).permute({1, 0, 2}));
    dv.narrow(0, begin, n).copy_(gv.sum(1).permute({1, 0, 2}));
  });
  return {dq, dk, dv};
}

Forward call_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     at::IntArrayRef cu_seqlens, double scale) {
  static const auto op = find_op<decltype(forward_cpu)>("xrun::varlen_attention_forward");
  return op.call(q, k, v, cu_seqlens, scale);
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, at::IntArrayRef cu_seqlens,
                            double scale) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, lse] = call_forward(q, k, v, cu_seqlens, scale);
    ctx->save_for_backward({q, k, v, out, lse});
    ctx->saved_data["cu_seqlens"] = cu_seqlens.vec();
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    static const auto op = find_op<decltype(backward_cpu)>("xrun::varlen_attention_backward");
    const auto saved = ctx->get_saved_variables();
    const std::vector<int64_t> cu_seqlens = ctx->saved_data["cu_seqlens"].toIntVector();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dq, dk, dv] = op.call(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4],
                                cu_seqlens, ctx->saved_data["scale"].toDouble());
    return {dq, dk, dv, {}, {}};
  }
};

at::Tensor without_graph(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         at::IntArrayRef cu_seqlens, double scale) {
  return std::get<0>(call_forward(q, k, v, cu_seqlens, scale));
}

at::Tensor with_graph(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      at::IntArrayRef cu_seqlens, double scale) {
  return AttentionFunction::apply(q, k, v, cu_seqlens, scale);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("varlen_attention(Tensor q, Tensor k, Tensor v, int[] cu_seqlens, float scale) -> Tensor");
  m.def(
      "varlen_attention_forward(Tensor q, Tensor k, Tensor v, int[] cu_seqlens, float scale) "
      "-> (Tensor, Tensor)");
  m.def(
      "varlen_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, "
      "Tensor lse, int[] cu_seqlens, float scale) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("varlen_attention_forward", forward_cpu);
  m.impl("varlen_attention_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("varlen_attention", without_graph);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("varlen_attention", with_graph); }

at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<int64_t>& cu_seqlens, double scale) {
  static const auto op = find_op<decltype(without_graph)>("xrun::varlen_attention");
  return op.call(q, k, v, cu_seqlens, scale);
}

}  // namespace xrun
