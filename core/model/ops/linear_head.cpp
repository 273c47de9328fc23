// With logits z = x W^T over the columns that exist, s = z / temperature, p = softmax s, entropy H,
// and the gradients a of the log-probabilities (targets and top k), b of the log-sum-exp and c of
// the entropy:
//   ds = sum_m a_m (e_(y_m) - p) + b p - c p (log p + H),  dz = ds / temperature,
//   dx = dz W,  dW = dz^T x.

#include "core/model/ops/linear_head.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/base/error.h"
#include "core/model/ops/head_block.h"
#include "core/model/ops/linear_head_op.h"

namespace xrun {

namespace {

constexpr const char* kHeadOp = "linear_head";

// Below the minimum, a log-sum-exp is just its row's largest logit.
constexpr double kMinTemperature = 1e-6, kMaxTemperature = 1e30;

// Padding rows of the weight are not tokens and take no part in the softmax.
int64_t existing_columns(const HeadInputs& in) {
  return in.columns > 0 ? in.columns : in.weight.size(0);
}

void check_head_weight(const HeadInputs& in) {
  check_floating(kHeadOp, "weight", in.weight, in.weight.device());
  XRUN_CHECK(in.weight.dim() == 2 && in.weight.numel() > 0,
             "{}: weight is [{}], wanted [V, D], neither of them 0", kHeadOp,
             fmt::join(in.weight.sizes(), ", "));
  XRUN_CHECK(in.columns >= 0 && in.columns <= in.weight.size(0),
             "{}: columns is {}, wanted 1 to the {} rows of weight, or 0 for all of them", kHeadOp,
             in.columns, in.weight.size(0));
}

// The message names the element, so that one bad id among thousands is found.
//   range  says what `bound` counts, with {} for the number
void check_head_ids(const at::Tensor& ids, int64_t bound, const char* name, const char* range) {
  const int64_t per_row = ids_per_row(ids);
  const int64_t* id = ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if (id[i] >= 0 && id[i] < bound) continue;
    const std::string at =
        ids.dim() == 2 ? fmt::format("{}, {}", i / per_row, i % per_row) : fmt::format("{}", i);
    throw Error(fmt::format("{}: {}[{}] is {}, outside {}", kHeadOp, name, at, id[i],
                            fmt::format(fmt::runtime(range), bound)));
  }
}

void check_head_rows(const HeadInputs& in, int64_t tokens) {
  const at::Tensor &index = in.index, &target = in.target;
  const c10::Device device = in.weight.device();
  check_type(kHeadOp, "index", index, at::kLong, device);
  check_type(kHeadOp, "target", target, at::kLong, device);
  const bool shaped = target.dim() == 1 || target.dim() == 2;
  XRUN_CHECK(index.dim() == 1 && shaped && index.size(0) == target.size(0),
             "{}: index is [{}], target is [{}]; wanted [R], and [R] or [R, M]", kHeadOp,
             fmt::join(index.sizes(), ", "), fmt::join(target.sizes(), ", "));
  // Reading ids of a device would wait for it.
  if (!device.is_cpu()) return;
  check_head_ids(index.contiguous(), tokens, "index", "the {} rows of hidden");
  check_head_ids(target.contiguous(), existing_columns(in), "target", "the vocabulary of {}");
}

// Checks the arguments, whatever the device, before its half is called.
auto linear_head_forward(const at::Tensor& hidden, const at::Tensor& weight,
                         const at::Tensor& index, const at::Tensor& target, double temperature,
                         int64_t columns, bool entropy, int64_t top_k, int64_t head_mb, bool lse) {
  // The op is found by name, since the CUDA half is registered when its plug-in loads.
  static const auto op = find_op<LinearHeadForward>("xrun::linear_head_forward");
  const HeadInputs inputs{weight, index, target, columns};
  check_head_inputs(inputs, hidden);
  check_head_options(inputs, temperature, top_k);
  return op.call(hidden, weight, index, target, temperature, columns, entropy, top_k, head_mb, lse);
}

// logprob, entropy, lse, top_logprob, top_id
using HeadOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// An output that is not wanted is [0], since an operator returns a fixed number of tensors.
at::Tensor lse_or_empty(const at::Tensor& lse, bool wanted) {
  return wanted ? lse : at::empty({0}, lse.options());
}

// The head of a model in fp64: plain operations with all logits, differentiated by autograd.
HeadOutputs head_composed(const at::Tensor& hidden, const HeadInputs& in, double temperature,
                          bool entropy, int64_t top_k, bool lse_wanted) {
  check_head_inputs(in, hidden);
  check_head_options(in, temperature, top_k);
  // x [R, D]; s and logp [R, V]. The entropy is lse - sum p s.
  const at::Tensor x = hidden.to(at::kDouble).index_select(0, in.index);
  const at::Tensor s = at::linear(x, in.weight.narrow(0, 0, existing_columns(in))).div(temperature);
  const at::Tensor lse = at::logsumexp(s, 1), logp = s.sub(lse.unsqueeze(1));
  const at::Tensor target = in.target.dim() == 2 ? in.target : in.target.unsqueeze(1);
  // The ids are chosen without a graph; the gather below carries the gradient of the values.
  const at::Tensor top_id =
      std::get<1>(at::sort(logp.detach(), /*stable=*/true, 1, /*descending=*/true))
          .narrow(1, 0, top_k);
  return {logp.gather(1, target).view(in.target.sizes()),
          entropy ? lse.sub(logp.exp().mul(s).sum(1)) : at::empty({0}, s.options()),
          lse_or_empty(lse, lse_wanted), logp.gather(1, top_id), top_id};
}

// Serves sampling and scoring. Keeps no rows, since the results carry no graph.
HeadOutputs head_without_graph(const at::Tensor& hidden, const at::Tensor& weight,
                               const at::Tensor& index, const at::Tensor& target,
                               double temperature, int64_t columns, bool entropy, int64_t top_k,
                               int64_t, bool lse_wanted) {
  if (weight.scalar_type() == at::kDouble) {
    return head_composed(hidden, {weight, index, target, columns}, temperature, entropy, top_k,
                         lse_wanted);
  }
  auto [logprob, row_entropy, lse, top_logprob, top_id, x, saved_rows] = linear_head_forward(
      hidden, weight, index, target, temperature, columns, entropy, top_k, 0, lse_wanted);
  return {logprob, row_entropy, lse_or_empty(lse, lse_wanted), top_logprob, top_id};
}

// Gradients of the outputs, with those of the targets and of the top k side by side.
struct HeadOutputGradients {
  at::Tensor grad, ids;     // [R, N]
  at::Tensor grad_lse;      // [R]
  at::Tensor grad_entropy;  // [R], or [0] for none
};

// Makes one list of (id, gradient) per row, in which the kernel treats targets and top k alike.
HeadOutputGradients gather_gradients(const torch::autograd::variable_list& grads,
                                     const at::Tensor& target, const at::Tensor& top_id,
                                     const at::Tensor& lse) {
  const int64_t rows = lse.size(0);
  // An empty column comes first, so that cat has an operand even if neither output has a gradient.
  std::vector<at::Tensor> values = {at::zeros({rows, 0}, lse.options())};
  std::vector<at::Tensor> ids = {at::zeros({rows, 0}, target.options())};
  const auto take = [&](const at::Tensor& grad, const at::Tensor& id) {
    if (!grad.defined()) return;
    const int64_t per_row = ids_per_row(id);
    values.push_back(grad.reshape({rows, per_row}));
    ids.push_back(id.reshape({rows, per_row}));
  };
  take(grads[0], target);
  take(grads[3], top_id);
  return {at::cat(values, 1), at::cat(ids, 1),
          grads[2].defined() ? grads[2] : at::zeros({rows}, lse.options()),
          grads[1].defined() ? grads[1] : at::zeros({0}, lse.options())};
}

class LinearHeadFunction : public torch::autograd::Function<LinearHeadFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const at::Tensor& hidden, const at::Tensor& weight,
                                                const at::Tensor& index, const at::Tensor& target,
                                                double temperature, int64_t columns, bool entropy,
                                                int64_t top_k, int64_t head_mb, bool lse_wanted) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [logprob, row_entropy, lse, top_logprob, top_id, x, saved_rows] = linear_head_forward(
        hidden, weight, index, target, temperature, columns, entropy, top_k, head_mb, lse_wanted);
    // An output that no loss reads then has no gradient, and the backward skips it.
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({weight, index, target, top_id, lse, row_entropy, x, saved_rows});
    ctx->saved_data["temperature"] = temperature;
    ctx->saved_data["columns"] = columns;
    ctx->saved_data["tokens"] = hidden.size(0);
    ctx->saved_data["hidden_type"] = hidden.scalar_type();
    ctx->saved_data["alone"] =
        wants_targets_alone(weight, target, temperature, columns, entropy, top_k, lse_wanted);
    return {logprob, row_entropy, lse_or_empty(lse, lse_wanted), top_logprob, top_id};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative(kHeadOp);
    static const auto op = find_op<LinearHeadBackward>("xrun::linear_head_backward");
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &weight = saved[0], &index = saved[1], &target = saved[2], &lse = saved[4];
    const bool want_hidden = ctx->needs_input_grad(0), want_weight = ctx->needs_input_grad(1);
    const bool alone = ctx->saved_data["alone"].toBool() && grads[0].defined();
    at::AutoDispatchBelowADInplaceOrView below;
    HeadOutputGradients g;
    if (alone) {
      g = {grads[0], target, at::Tensor(), at::Tensor()};
      g.grad_lse = g.grad_entropy = at::empty({0}, lse.options());
    } else {
      g = gather_gradients(grads, target, saved[3], lse);
    }
    auto [dhidden, dweight] = op.call(
        g.grad, g.grad_lse, g.grad_entropy, weight, index, g.ids, lse, saved[5], saved[6], saved[7],
        ctx->saved_data["temperature"].toDouble(), ctx->saved_data["columns"].toInt(),
        ctx->saved_data["tokens"].toInt(), want_hidden, want_weight, alone);
    count_head_rows(saved[6], saved[7]);
    if (want_hidden) dhidden = dhidden.to(ctx->saved_data["hidden_type"].toScalarType());
    if (want_weight) dweight = dweight.to(weight.scalar_type());
    return {dhidden, dweight, {}, {}, {}, {}, {}, {}, {}, {}};
  }
};

// fp64 is differentiated by autograd, for tests of the gradients.
HeadOutputs head_with_graph(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& index, const at::Tensor& target, double temperature,
                            int64_t columns, bool entropy, int64_t top_k, int64_t head_mb,
                            bool lse) {
  if (weight.scalar_type() == at::kDouble) {
    return head_composed(hidden, {weight, index, target, columns}, temperature, entropy, top_k,
                         lse);
  }
  const bool graph =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  if (graph) {
    const auto all = LinearHeadFunction::apply(hidden, weight, index, target, temperature, columns,
                                               entropy, top_k, head_mb, lse);
    return {all[0], all[1], all[2], all[3], all[4]};
  }
  at::AutoDispatchBelowADInplaceOrView below;
  return head_without_graph(hidden, weight, index, target, temperature, columns, entropy, top_k,
                            head_mb, lse);
}

at::Tensor head_logits_composed(const at::Tensor& hidden, const at::Tensor& weight) {
  check_head_logits(hidden, weight);
  return at::linear(hidden.to(at::kFloat), weight.to(at::kFloat));
}

}  // namespace

void check_head_logits(const at::Tensor& hidden, const at::Tensor& weight) {
  constexpr const char* kOp = "head_logits";
  check_floating(kOp, "hidden", hidden, hidden.device());
  check_type(kOp, "weight", weight, hidden.scalar_type(), hidden.device());
  XRUN_CHECK(hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1),
             "head_logits: hidden is [{}], weight [{}]; wanted [n, D] and [V, D]",
             fmt::join(hidden.sizes(), ", "), fmt::join(weight.sizes(), ", "));
}

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def("head_logits(Tensor hidden, Tensor weight) -> Tensor");
  m.def(
      "linear_head(Tensor hidden, Tensor weight, Tensor index, Tensor target, "
      "float temperature=1., int columns=0, bool entropy=False, int top_k=0, int head_mb=1024, "
      "bool lse=True) "
      "-> (Tensor logprob, Tensor entropy, Tensor lse, Tensor top_logprob, Tensor top_id)");
  m.def(
      "linear_head_forward(Tensor hidden, Tensor weight, Tensor index, Tensor target, "
      "float temperature, int columns, bool entropy, int top_k, int head_mb, bool lse) "
      "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "linear_head_backward(Tensor grad, Tensor grad_lse, Tensor grad_entropy, Tensor weight, "
      "Tensor index, Tensor ids, Tensor lse, Tensor entropy, Tensor x, Tensor saved_rows, "
      "float temperature, int columns, int tokens, bool want_hidden, bool want_weight, bool alone) "
      "-> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) {
  m.impl("linear_head", head_without_graph);
  m.impl("head_logits", head_logits_composed);
}

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("linear_head", head_with_graph); }

at::Tensor head_logits(const at::Tensor& hidden, const at::Tensor& weight) {
  static const auto op = find_op<decltype(head_logits_composed)>("xrun::head_logits");
  return op.call(hidden, weight);
}

HeadResult linear_head(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& index,
                       const at::Tensor& target, const HeadOptions& options) {
  static const auto op = find_op<decltype(head_without_graph)>("xrun::linear_head");
  auto [logprob, entropy, lse, top_logprob, top_id] =
      op.call(hidden, weight, index, target, options.temperature, options.columns, options.entropy,
              options.top_k, options.head_mb, options.lse);
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

// True in the usual case of training, in which the softmax overwrites the logits.
bool wants_targets_alone(const at::Tensor& weight, const at::Tensor& target, double temperature,
                         int64_t columns, bool entropy, int64_t top_k, bool lse) {
  const bool all_columns = columns == 0 || columns == weight.size(0);
  return target.dim() == 1 && temperature == 1 && all_columns && !entropy && top_k == 0 && !lse;
}

void check_head_inputs(const HeadInputs& inputs, const at::Tensor& hidden) {
  check_head_weight(inputs);
  check_floating(kHeadOp, "hidden", hidden, inputs.weight.device());
  XRUN_CHECK(hidden.dim() == 2 && hidden.size(1) == inputs.weight.size(1),
             "{}: hidden is [{}], weight is [{}]; wanted [T, D] and [V, D]", kHeadOp,
             fmt::join(hidden.sizes(), ", "), fmt::join(inputs.weight.sizes(), ", "));
  check_head_rows(inputs, hidden.size(0));
}

void check_head_options(const HeadInputs& inputs, double temperature, int64_t top_k) {
  XRUN_CHECK(temperature >= kMinTemperature && temperature <= kMaxTemperature,
             "{}: temperature is {}, wanted a number from {} to {}", kHeadOp, temperature,
             kMinTemperature, kMaxTemperature);
  XRUN_CHECK(top_k >= 0 && top_k <= existing_columns(inputs),
             "{}: top_k is {}, wanted 0 to the {} columns", kHeadOp, top_k,
             existing_columns(inputs));
}

// The backward checks its inputs again, since tests call it without a saved graph.
void check_head_saved(const HeadInputs& inputs, const HeadSaved& saved, int64_t tokens) {
  check_head_weight(inputs);
  check_head_rows(inputs, tokens);
  // Targets of one hidden row share its x, so x may have fewer rows than index.
  const bool fewer = saved.x.dim() == 2 && saved.x.size(0) < inputs.index.size(0);
  const int64_t rows = fewer ? saved.x.size(0) : inputs.index.size(0);
  const int64_t vocab = inputs.weight.size(0);
  check_floating(kHeadOp, "grad", saved.grad);
  check_sizes(kHeadOp, "grad", saved.grad, inputs.target.sizes());
  check_type(kHeadOp, "lse", saved.lse, at::kFloat);
  check_sizes(kHeadOp, "lse", saved.lse, {rows});
  check_type(kHeadOp, "x", saved.x, at::kFloat);
  check_sizes(kHeadOp, "x", saved.x, {rows, inputs.weight.size(1)});
  check_type(kHeadOp, "saved_rows", saved.saved_rows, at::kFloat);
  XRUN_CHECK(saved.saved_rows.dim() == 2 && saved.saved_rows.size(0) <= rows &&
                 saved.saved_rows.size(1) == vocab,
             "{}: saved_rows is [{}], wanted at most {} rows of {}", kHeadOp,
             fmt::join(saved.saved_rows.sizes(), ", "), rows, vocab);
}

}  // namespace xrun
