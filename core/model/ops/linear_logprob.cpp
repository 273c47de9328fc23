// With z = x W^T, p = softmax(z), y the target and a the gradient of the row's log-probability:
//   log p_y = z_y - lse(z),   dz = -a (p - e_y),   dx = dz W,   dW = dz^T x.
// The rows keep p - e_y, so that a is folded into the small operands: dx = -a ((p - e_y) W) and
// dW = (p - e_y)^T (-a x). No second pass over [R, V] is needed once a is known.

#include "core/model/ops/linear_logprob.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/model/ops/head_check.h"
#include "core/model/ops/head_chunk.h"
#include "core/model/ops/op_call.h"
#include "core/model/ops/op_check.h"
#include "core/model/ops/scratch.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

namespace {

constexpr const char* kOp = "linear_logprob";

// Softmax and log-probability of the rows z [n, V], whose first is row `begin` of the whole.
void softmax_chunk(const at::Tensor& z, int64_t begin, const at::Tensor& target,
                   at::Tensor& logprob, at::Tensor& lse, bool keep) {
  const int64_t width = z.size(1);
  float* const x = z.mutable_data_ptr<float>();
  const int64_t* const t = target.const_data_ptr<int64_t>() + begin;
  float* const l = logprob.mutable_data_ptr<float>() + begin;
  float* const s = lse.mutable_data_ptr<float>() + begin;
  at::parallel_for(0, z.size(0), 1, [&](int64_t from, int64_t to) {
    kernels::cpu_kernels().softmax_rows(
        {x + from * width, t + from, l + from, s + from, to - from, width, keep});
  });
}

void softmax_again(const at::Tensor& z, int64_t begin, const at::Tensor& target,
                   const at::Tensor& lse) {
  const int64_t width = z.size(1);
  float* const x = z.mutable_data_ptr<float>();
  const int64_t* const t = target.const_data_ptr<int64_t>() + begin;
  const float* const s = lse.const_data_ptr<float>() + begin;
  at::parallel_for(0, z.size(0), 1, [&](int64_t from, int64_t to) {
    kernels::cpu_kernels().softmax_from_lse(
        {x + from * width, t + from, s + from, to - from, width});
  });
}

using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Returns logprob [R], lse [R], x [R, D] fp32 (the gathered rows) and kept [n, V], where n rows fit
// into head_mb; n = 0 when nothing is to be kept.
Forward forward_cpu(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                    const at::Tensor& target, int64_t head_mb) {
  check_head_inputs({kOp, weight, index, target}, hidden);
  const at::Tensor rows = index.contiguous(), ids = target.contiguous();
  const int64_t count = rows.size(0), vocab = weight.size(0);
  const int64_t kept_rows = head_rows_within(head_mb, count, vocab);
  const at::Tensor x = at::index_select(hidden, 0, rows).to(at::kFloat).contiguous();
  const at::Tensor w = weight.to(at::kFloat).contiguous();
  at::Tensor logprob = at::empty({count}, at::kFloat), lse = at::empty({count}, at::kFloat);
  at::Tensor kept = at::empty({0, vocab}, at::kFloat);
  if (kept_rows > 0) kept = scratch_floats(kept_rows * vocab).view({kept_rows, vocab});
  each_logit_chunk(x, w, kept, 0, [&](const LogitChunk& chunk) {
    softmax_chunk(chunk.z, chunk.begin, ids, logprob, lse, chunk.kept);
  });
  return {logprob, lse, x, kept};
}

using Backward = std::tuple<at::Tensor, at::Tensor>;

// Returns dhidden [T, D] and dweight [V, D], each undefined if not wanted.
Backward backward_cpu(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& index,
                      const at::Tensor& target, const at::Tensor& lse_any, const at::Tensor& x_any,
                      const at::Tensor& kept, int64_t tokens, bool want_hidden, bool want_weight) {
  check_head_saved({kOp, weight, index, target}, {grad, lse_any, x_any, kept}, tokens);
  const at::Tensor lse = lse_any.contiguous(), x = x_any.contiguous(), ids = target.contiguous();
  const at::Tensor w = weight.to(at::kFloat).contiguous(), a = grad.to(at::kFloat).neg();
  const int64_t kept_rows = kept.size(0);
  HeadGradients gradients(x, w, want_hidden, want_weight);
  if (kept_rows > 0) gradients.add(kept.contiguous(), 0, a);
  each_logit_chunk(x, w, {}, kept_rows, [&](const LogitChunk& chunk) {
    softmax_again(chunk.z, chunk.begin, ids, lse);
    gradients.add(chunk.z, chunk.begin, a);
  });
  return {gradients.hidden(index, tokens), gradients.weight()};
}

Forward call_forward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                     const at::Tensor& target, int64_t head_mb) {
  static const auto op = find_op<decltype(forward_cpu)>("xrun::linear_logprob_forward");
  check_head_inputs({kOp, weight, index, target}, hidden);  // on every device
  return op.call(hidden, weight, index, target, head_mb);
}

Backward call_backward(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& index,
                       const at::Tensor& target, const at::Tensor& lse, const at::Tensor& x,
                       const at::Tensor& kept, int64_t tokens, bool want_hidden, bool want_weight) {
  static const auto op = find_op<decltype(backward_cpu)>("xrun::linear_logprob_backward");
  return op.call(grad, weight, index, target, lse, x, kept, tokens, want_hidden, want_weight);
}

// Nothing is kept: the result carries no graph.
at::Tensor logprob_without_graph(const at::Tensor& hidden, const at::Tensor& weight,
                                 const at::Tensor& index, const at::Tensor& target, int64_t) {
  return std::get<0>(call_forward(hidden, weight, index, target, 0));
}

class LinearLogprob : public torch::autograd::Function<LinearLogprob> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& index,
                            const at::Tensor& target, int64_t head_mb) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [logprob, lse, x, kept] = call_forward(hidden, weight, index, target, head_mb);
    ctx->save_for_backward({weight, index, target, lse, x, kept});
    ctx->saved_data["tokens"] = hidden.size(0);
    ctx->saved_data["hidden_type"] = hidden.scalar_type();
    return logprob;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative(kOp);
    const auto saved = ctx->get_saved_variables();
    const bool want_hidden = ctx->needs_input_grad(0), want_weight = ctx->needs_input_grad(1);
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dhidden, dweight] =
        call_backward(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5],
                      ctx->saved_data["tokens"].toInt(), want_hidden, want_weight);
    count_head_rows(saved[4], saved[5]);
    if (want_hidden) dhidden = dhidden.to(ctx->saved_data["hidden_type"].toScalarType());
    if (want_weight) dweight = dweight.to(saved[0].scalar_type());
    return {dhidden, dweight, {}, {}, {}};
  }
};

at::Tensor logprob_with_graph(const at::Tensor& hidden, const at::Tensor& weight,
                              const at::Tensor& index, const at::Tensor& target, int64_t head_mb) {
  const bool graph =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  if (graph) return LinearLogprob::apply(hidden, weight, index, target, head_mb);
  at::AutoDispatchBelowADInplaceOrView below;
  return logprob_without_graph(hidden, weight, index, target, head_mb);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def(
      "linear_logprob(Tensor hidden, Tensor weight, Tensor index, Tensor target, "
      "int head_mb=1024) -> Tensor");
  m.def(
      "linear_logprob_forward(Tensor hidden, Tensor weight, Tensor index, Tensor target, "
      "int head_mb) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "linear_logprob_backward(Tensor grad, Tensor weight, Tensor index, Tensor target, "
      "Tensor lse, Tensor x, Tensor kept, int tokens, bool want_hidden, bool want_weight) "
      "-> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("linear_logprob_forward", forward_cpu);
  m.impl("linear_logprob_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("linear_logprob", logprob_without_graph);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("linear_logprob", logprob_with_graph); }

at::Tensor linear_logprob(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& index, const at::Tensor& target, int64_t head_mb) {
  static const auto op = find_op<decltype(logprob_without_graph)>("xrun::linear_logprob");
  return op.call(hidden, weight, index, target, head_mb);
}

}  // namespace xrun
