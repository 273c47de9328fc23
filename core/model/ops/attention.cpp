// The log-sum-exp needs no backward kernel of its own. With g its gradient and p the softmax,
//   dq_i += g_i scale sum_j p_ij k_j,   dk_j += scale sum_i p_ij g_i q_i.
// The first sum is the attention's output with k as v; the second is dv for the gradient g q.

#include "core/model/ops/attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/model/ops/attention_op.h"

namespace xrun {

namespace {

using AttentionOutputs = std::tuple<at::Tensor, at::Tensor>;

// The op is found by name, since the CUDA half is registered when its plug-in loads.
AttentionOutputs attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   at::IntArrayRef cu_seqlens, double scale, int64_t window,
                                   at::IntArrayRef parent) {
  static const auto op = find_op<AttentionForward>("xrun::varlen_attention_forward");
  return op.call(q, k, v, cu_seqlens, scale, window, parent);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor& out, const at::Tensor& lse, at::IntArrayRef cu_seqlens, double scale,
    int64_t window, at::IntArrayRef parent) {
  static const auto op = find_op<AttentionBackward>("xrun::varlen_attention_backward");
  return op.call(grad, q, k, v, out, lse, cu_seqlens, scale, window, parent);
}

// Returns out and lse, both with gradients.
class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const at::Tensor& q, const at::Tensor& k,
                                                const at::Tensor& v, at::IntArrayRef cu_seqlens,
                                                double scale, int64_t window,
                                                at::IntArrayRef parent) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, lse] = attention_forward(q, k, v, cu_seqlens, scale, window, parent);
    // The gradient of an output that no loss reads is then undefined, and its half of the backward
    // is skipped.
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({q, k, v, out, lse});  // attention_saves
    ctx->saved_data["cu_seqlens"] = cu_seqlens.vec();
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    ctx->saved_data["parent"] = parent.vec();
    return {out, lse};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("varlen_attention");
    // A backward of a long pack takes minutes on a CPU, so Ctrl-C is answered between layers.
    check_work_interrupt();
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const std::vector<int64_t> cu_seqlens = ctx->saved_data["cu_seqlens"].toIntVector();
    const double scale = ctx->saved_data["scale"].toDouble();
    const int64_t window = ctx->saved_data["window"].toInt();
    const std::vector<int64_t> parent = ctx->saved_data["parent"].toIntVector();
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor dq, dk, dv;
    // A loss may have used `out`, `lse` or both.
    if (grads[0].defined()) {
      std::tie(dq, dk, dv) =
          attention_backward(grads[0], q, k, v, out, lse, cu_seqlens, scale, window, parent);
    }
    if (grads[1].defined()) {
      // grads[1] [H, T]; g [T, H, 1]; seen, sum_j p_ij k_j, is [T, H, K].
      const at::Tensor g = grads[1].t().unsqueeze(2).mul(scale);
      const at::Tensor seen =
          std::get<0>(attention_forward(q, k, k, cu_seqlens, scale, window, parent));
      const at::Tensor of_lse = g.mul(q).to(q.scalar_type());
      // dv of the gradient g q, with k as the values: sum_i p_ij g_i q_i.
      const at::Tensor more_dk = std::get<2>(
          attention_backward(of_lse, q, k, k, seen, lse, cu_seqlens, scale, window, parent));
      const at::Tensor more_dq = g.mul(seen).to(q.scalar_type());
      dq = dq.defined() ? dq.add(more_dq) : more_dq;
      dk = dk.defined() ? dk.add(more_dk) : more_dk;
    }
    return {dq, dk, dv, {}, {}, {}, {}};
  }
};

// Attention of the rows after the held ones. Returns only out.
class HeldAttentionFunction : public torch::autograd::Function<HeldAttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, const at::Tensor& held_k,
                            const at::Tensor& held_v, at::IntArrayRef cu_seqlens, double scale,
                            int64_t window, at::IntArrayRef parent) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, lse] =
        held_attention_forward(q, k, v, {held_k, held_v}, cu_seqlens, scale, window, parent);
    ctx->save_for_backward({q, k, v, held_k, held_v, out, lse});
    ctx->saved_data["cu_seqlens"] = cu_seqlens.vec();
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    ctx->saved_data["parent"] = parent.vec();
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("varlen_attention");
    check_work_interrupt();
    const auto s = ctx->get_saved_variables();
    const std::vector<int64_t> cu_seqlens = ctx->saved_data["cu_seqlens"].toIntVector();
    const std::vector<int64_t> parent = ctx->saved_data["parent"].toIntVector();
    at::AutoDispatchBelowADInplaceOrView below;
    const HeldGradients d = held_attention_backward(
        grads[0], s[0], s[1], s[2], {s[3], s[4]}, s[5], s[6], cu_seqlens,
        ctx->saved_data["scale"].toDouble(), ctx->saved_data["window"].toInt(), parent);
    return {d.q, d.k, d.v, d.held.k, d.held.v, {}, {}, {}, {}};
  }
};

at::Tensor attention_without_graph(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   at::IntArrayRef cu_seqlens, double scale, int64_t window,
                                   at::IntArrayRef parent) {
  // lse is computed anyway, but without a graph nothing reads it.
  return std::get<0>(attention_forward(q, k, v, cu_seqlens, scale, window, parent));
}

at::Tensor attention_with_graph(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                at::IntArrayRef cu_seqlens, double scale, int64_t window,
                                at::IntArrayRef parent) {
  return AttentionFunction::apply(q, k, v, cu_seqlens, scale, window, parent)[0];
}

AttentionOutputs attention_lse_with_graph(const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, at::IntArrayRef cu_seqlens,
                                          double scale, int64_t window, at::IntArrayRef parent) {
  const auto both = AttentionFunction::apply(q, k, v, cu_seqlens, scale, window, parent);
  return {both[0], both[1]};
}

}  // namespace

// varlen_attention* are what models call; _forward and _backward are what devices implement.
TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def(
      "varlen_attention(Tensor q, Tensor k, Tensor v, int[] cu_seqlens, float scale, "
      "int window=0, int[] parent=[]) -> Tensor");
  m.def(
      "varlen_attention_lse(Tensor q, Tensor k, Tensor v, int[] cu_seqlens, float scale, "
      "int window=0, int[] parent=[]) -> (Tensor out, Tensor lse)");
  m.def(
      "varlen_attention_forward(Tensor q, Tensor k, Tensor v, int[] cu_seqlens, float scale, "
      "int window=0, int[] parent=[]) -> (Tensor, Tensor)");
  m.def(
      "varlen_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, "
      "Tensor lse, int[] cu_seqlens, float scale, int window=0, int[] parent=[]) -> "
      "(Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("varlen_attention", attention_without_graph);
  m.impl("varlen_attention_lse", attention_forward);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) {
  m.impl("varlen_attention", attention_with_graph);
  m.impl("varlen_attention_lse", attention_lse_with_graph);
}

at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionLayout& layout, double scale) {
  static const auto op = find_op<decltype(attention_without_graph)>("xrun::varlen_attention");
  return op.call(q, k, v, layout.cu_seqlens, scale, layout.window, layout.parent);
}

at::Tensor varlen_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const HeldKeys& held, const AttentionLayout& layout, double scale) {
  if (q.is_cpu() && has_kernel_type(q)) {
    return HeldAttentionFunction::apply(q, k, v, held.k, held.v, at::IntArrayRef(layout.cu_seqlens),
                                        scale, layout.window, at::IntArrayRef(layout.parent));
  }
  // Elsewhere the held rows get queries of zeros, whose outputs are dropped.
  const at::Tensor none = at::zeros({held.k.size(0), q.size(1), q.size(2)}, q.options());
  return varlen_attention(at::cat({none, q}), at::cat({held.k, k}), at::cat({held.v, v}), layout,
                          scale)
      .narrow(0, held.k.size(0), q.size(0));
}

AttentionResult varlen_attention_lse(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const AttentionLayout& layout, double scale) {
  static const auto op = find_op<decltype(attention_forward)>("xrun::varlen_attention_lse");
  auto [out, lse] = op.call(q, k, v, layout.cu_seqlens, scale, layout.window, layout.parent);
  return {out, lse};
}

void attention_saves(SavedTensors& saved, double heads, double kv_heads, double head_dim) {
  saved.add("q", heads * head_dim);
  saved.add("k", kv_heads * head_dim);
  saved.add("v", kv_heads * head_dim);
  saved.add("attention_out", heads * head_dim);
  saved.add_bytes("attention_lse", 4 * heads);
}

Temporaries attention_temporaries(double heads, double kv_heads, double head_dim) {
  // forward: q, k, v and out. Backward: the gradients of those, and dq, dk, dv before RoPE's
  // backward beside theirs after it; or, of a few sequences in bf16, the gradients of out and q
  // beside fp32 dk and dv of every query head and their sums (attention_cpu.cpp).
  return {.forward = (2 * heads + 2 * kv_heads) * head_dim,
          .backward = std::max(4 * heads + 4 * kv_heads, 6 * heads + 2 * kv_heads) * head_dim};
}

// Called before every kernel, since kernels do not check bounds.
void check_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     at::IntArrayRef cu_seqlens, int64_t window, at::IntArrayRef parent,
                     int64_t held) {
  constexpr const char* kOp = "varlen_attention";
  XRUN_CHECK(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                 q.size(2) == k.size(2) && k.size(1) > 0 && q.size(1) > 0 && q.size(2) > 0 &&
                 q.size(1) % k.size(1) == 0,
             "varlen_attention: q is [{}], k [{}], v [{}]; wanted q [T, H, K] and k, v [T, J, K] "
             "with J dividing H and K above 0",
             fmt::join(q.sizes(), ", "), fmt::join(k.sizes(), ", "), fmt::join(v.sizes(), ", "));
  check_floating(kOp, "q", q, q.device());
  check_type(kOp, "k", k, q.scalar_type(), q.device());
  check_type(kOp, "v", v, q.scalar_type(), q.device());
  check_layout(kOp, cu_seqlens, parent, window, held + q.size(0));
}

void check_attention_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                              at::IntArrayRef cu_seqlens, int64_t window, at::IntArrayRef parent,
                              int64_t held) {
  check_attention(q, k, v, cu_seqlens, window, parent, held);
  constexpr const char* kOp = "varlen_attention";
  for (const auto& [name, x] : {std::pair{"grad", &grad}, std::pair{"out", &out}}) {
    check_type(kOp, name, *x, q.scalar_type(), q.device());
    check_sizes(kOp, name, *x, q.sizes(), q.device());
  }
  check_type(kOp, "lse", lse, wide_type(q), q.device());
  check_sizes(kOp, "lse", lse, {q.size(1), q.size(0)}, q.device());
}

}  // namespace xrun
