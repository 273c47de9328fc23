// With s = x W^T / temperature over the columns that exist, p = softmax s, and the gradients a of
// the log-probabilities (of targets and of the top k), b of the log-sum-exp, c of the entropy H:
//   ds = sum_m a_m (e_(y_m) - p) + b p - c p (log p + H),   dx = dz W,   dW = dz^T x.

#include "core/model/ops/linear_head.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/model/ops/head_check.h"
#include "core/model/ops/head_chunk.h"
#include "core/model/ops/linear_head_op.h"
#include "core/model/ops/op_call.h"
#include "core/model/ops/op_check.h"

namespace xrun {

namespace {

constexpr const char* kOp = "linear_head";

// The gradients that came, of targets and top k side by side.
struct Gradients {
  at::Tensor grad, ids;     // [R, N]
  at::Tensor grad_lse;      // [R]
  at::Tensor grad_entropy;  // [R], or [0] for none
};

// Devices differ in their halves, not in what they are given.
auto call_forward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                  const at::Tensor& target, double temperature, int64_t columns, bool entropy,
                  int64_t top_k, int64_t head_mb) {
  static const auto op = find_op<LinearHeadForward>("xrun::linear_head_forward");
  const HeadInputs inputs{kOp, weight, index, target, columns, true};
  check_head_inputs(inputs, hidden);
  check_head_options(inputs, temperature, top_k);
  return op.call(hidden, weight, index, target, temperature, columns, entropy, top_k, head_mb);
}

using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Nothing is kept: the results carry no graph.
Results head_without_graph(const at::Tensor& hidden, const at::Tensor& weight,
                           const at::Tensor& index, const at::Tensor& target, double temperature,
                           int64_t columns, bool entropy, int64_t top_k, int64_t) {
  auto [logprob, spread, lse, top_logprob, top_id, x, kept] =
      call_forward(hidden, weight, index, target, temperature, columns, entropy, top_k, 0);
  return {logprob, spread, lse, top_logprob, top_id};
}

Gradients gather_gradients(const torch::autograd::variable_list& grads, const at::Tensor& target,
                           const at::Tensor& top_id, const at::Tensor& lse) {
  const int64_t rows = lse.size(0);
  std::vector<at::Tensor> values = {at::zeros({rows, 0}, lse.options())};
  std::vector<at::Tensor> ids = {at::zeros({rows, 0}, target.options())};
  const auto take = [&](const at::Tensor& grad, const at::Tensor& id) {
    if (!grad.defined()) return;
    const int64_t a_row = id.dim() == 2 ? id.size(1) : 1;
    values.push_back(grad.reshape({rows, a_row}));
    ids.push_back(id.reshape({rows, a_row}));
  };
  take(grads[0], target);
  take(grads[3], top_id);
  return {at::cat(values, 1), at::cat(ids, 1),
          grads[2].defined() ? grads[2] : at::zeros({rows}, lse.options()),
          grads[1].defined() ? grads[1] : at::zeros({0}, lse.options())};
}

class LinearHead : public torch::autograd::Function<LinearHead> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const at::Tensor& hidden, const at::Tensor& weight,
                                                const at::Tensor& index, const at::Tensor& target,
                                                double temperature, int64_t columns, bool entropy,
                                                int64_t top_k, int64_t head_mb) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [logprob, spread, lse, top_logprob, top_id, x, kept] =
        call_forward(hidden, weight, index, target, temperature, columns, entropy, top_k, head_mb);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({weight, index, target, top_id, lse, spread, x, kept});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["columns"] = columns;
    ctx->saved_data["tokens"] = hidden.size(0);
    ctx->saved_data["hidden_type"] = hidden.scalar_type();
    return {logprob, spread, lse, top_logprob, top_id};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative(kOp);
    static const auto op = find_op<LinearHeadBackward>("xrun::linear_head_backward");
    const auto saved = ctx->get_saved_variables();
    const bool want_hidden = ctx->needs_input_grad(0), want_weight = ctx->needs_input_grad(1);
    at::AutoDispatchBelowADInplaceOrView below;
    const Gradients g = gather_gradients(grads, saved[2], saved[3], saved[4]);
    auto [dhidden, dweight] = op.call(
        g.grad, g.grad_lse, g.grad_entropy, saved[0], saved[1], g.ids, saved[4], saved[5], saved[6],
        saved[7], ctx->saved_data["temperature"].toDouble(), ctx->saved_data["columns"].toInt(),
        ctx->saved_data["tokens"].toInt(), want_hidden, want_weight);
    count_head_rows(saved[6], saved[7]);
    if (want_hidden) dhidden = dhidden.to(ctx->saved_data["hidden_type"].toScalarType());
    if (want_weight) dweight = dweight.to(saved[0].scalar_type());
    return {dhidden, dweight, {}, {}, {}, {}, {}, {}, {}};
  }
};

Results head_with_graph(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                        const at::Tensor& target, double temperature, int64_t columns, bool entropy,
                        int64_t top_k, int64_t head_mb) {
  const bool graph =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  if (graph) {
    const auto all = LinearHead::apply(hidden, weight, index, target, temperature, columns, entropy,
                                       top_k, head_mb);
    return {all[0], all[1], all[2], all[3], all[4]};
  }
  at::AutoDispatchBelowADInplaceOrView below;
  return head_without_graph(hidden, weight, index, target, temperature, columns, entropy, top_k,
                            head_mb);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def(
      "linear_head(Tensor hidden, Tensor weight, Tensor index, Tensor target, "
      "float temperature=1., int columns=0, bool entropy=False, int top_k=0, int head_mb=1024) "
      "-> (Tensor logprob, Tensor entropy, Tensor lse, Tensor top_logprob, Tensor top_id)");
  m.def(
      "linear_head_forward(Tensor hidden, Tensor weight, Tensor index, Tensor target, "
      "float temperature, int columns, bool entropy, int top_k, int head_mb) "
      "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "linear_head_backward(Tensor grad, Tensor grad_lse, Tensor grad_entropy, Tensor weight, "
      "Tensor index, Tensor ids, Tensor lse, Tensor entropy, Tensor x, Tensor kept, "
      "float temperature, int columns, int tokens, bool want_hidden, bool want_weight) "
      "-> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("linear_head", head_without_graph);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("linear_head", head_with_graph); }

HeadResult linear_head(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                       const at::Tensor& target, const HeadOptions& options) {
  static const auto op = find_op<decltype(head_without_graph)>("xrun::linear_head");
  auto [logprob, entropy, lse, top_logprob, top_id] =
      op.call(hidden, weight, index, target, options.temperature, options.columns, options.entropy,
              options.top_k, options.head_mb);
  HeadResult result;
  result.logprob = logprob;
  if (options.entropy) result.entropy = entropy;
  if (options.lse) result.lse = lse;
  if (options.top_k > 0) {
    result.top_logprob = top_logprob;
    result.top_id = top_id;
  }
  return result;
}

}  // namespace xrun
