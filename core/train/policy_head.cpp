// outputs of a view = rows of linear_head over the hidden states of the micro-batch's one forward.
// In a folded micro-batch the head meets each distinct prediction of the view once, as in
// MicroBatch::token_logprob, and every loss row reads its prediction.

#include "core/train/policy_head.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/model/ops/device.h"
#include "core/model/ops/linear.h"
#include "core/model/weights/hf_config.h"
#include "core/prefix/folded_pack.h"
#include "core/train/batch.h"
#include "core/train/computed_pack.h"
#include "core/train/logprob_stand_in.h"
#include "core/train/policy.h"
#include "core/train/reference.h"

namespace xrun {

namespace {

constexpr at::Tensor HeadResult::*kHeadOutputs[] = {&HeadResult::logprob, &HeadResult::entropy,
                                                    &HeadResult::lse, &HeadResult::top_logprob,
                                                    &HeadResult::top_id};

void check_target(const at::Tensor& target, int64_t rows) {
  XRUN_CHECK(target.scalar_type() == at::kLong, "targets are {}, wanted whole numbers (i64)",
             c10::toString(target.scalar_type()));
  XRUN_CHECK((target.dim() == 1 || target.dim() == 2) && target.size(0) == rows,
             "targets are [{}], wanted [{}] or [{}, M]: a row for each trained token of the view",
             fmt::join(target.sizes(), ", "), rows, rows);
}

// The outputs of a batch without micro-batches: empty, with the options checked.
HeadResult no_rows(const at::Tensor& weight, const HeadOptions& options) {
  const at::Tensor none = at::empty({0}, weight.options().dtype(at::kLong));
  return linear_head(at::empty({0, weight.size(1)}, weight.options()), weight, none, none, options);
}

// The rows of a view's product with the vocabulary.
struct ViewPredictions {
  at::Tensor hidden, target;  // [E], or target [E, M]
  at::Tensor of_row;          // [R] the prediction of each loss row; undefined: one for each
};

// Targets that an objective gives are predictions of their own.
ViewPredictions predictions_of(Model& model, const View& view, const at::Tensor& given) {
  MicroBatch& micro = view.micro();
  const ComputedPack& pack = micro.computed(model);
  if (given.defined() || pack.fold == nullptr) {
    return {view.select_rows(pack.row_hidden),
            given.defined() ? on_device(given, micro.device())
                            : view.select_rows(micro.row_target()),
            {}};
  }
  std::vector<int64_t> of_row;
  for (const int64_t row : view.rows().loss_rows) {
    of_row.push_back(pack.fold->row_edge[static_cast<size_t>(row)]);
  }
  std::vector<int64_t> edges = of_row;
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  for (int64_t& edge : of_row) {
    edge = std::lower_bound(edges.begin(), edges.end(), edge) - edges.begin();
  }
  const at::Tensor chosen = on_device(int64_tensor(edges), micro.device());
  return {at::index_select(pack.edge_hidden, 0, chosen),
          at::index_select(pack.edge_target, 0, chosen),
          on_device(int64_tensor(of_row), micro.device())};
}

HeadResult head_of(Model& model, const at::Tensor& hidden, const ViewPredictions& predictions,
                   const HeadOptions& options) {
  HeadResult result = model.head(hidden, predictions.hidden, predictions.target, options);
  if (!predictions.of_row.defined()) return result;
  for (const auto output : kHeadOutputs) {
    at::Tensor& values = result.*output;
    if (values.defined()) values = at::index_select(values, 0, predictions.of_row);
  }
  return result;
}

// `head` of every micro-batch, without gradient, in batch order.
template <typename Source, typename Head>
HeadResult over_batch(Source& source, Batch& batch, const HeadOptions& options, const Head& head) {
  const at::NoGradGuard no_grad;
  if (batch.micros().empty()) return no_rows(source.model().head_weight(), options);
  std::vector<HeadResult> results;
  for (const auto& micro : batch.micros()) {
    results.push_back(head(micro->all()));
    // Only the outputs are needed again; the hidden states of a large batch are not.
    micro->free_hidden();
  }
  HeadResult whole;
  for (const auto output : kHeadOutputs) {
    std::vector<at::Tensor> parts;
    for (const HeadResult& one : results) {
      if ((one.*output).defined()) parts.push_back(one.*output);
    }
    if (!parts.empty()) whole.*output = batch.in_batch_order(parts, /*by_row=*/true);
  }
  return whole;
}

}  // namespace

HeadResult policy_head(Policy& policy, const View& view, HeadOptions options,
                       const at::Tensor& target) {
  if (target.defined()) check_target(target, view.row_count());
  if (const auto& stand_in = policy.stand_in()) return stand_in->head(view, options, target);
  MicroBatch& micro = view.micro();
  Model& model = policy.model();
  const at::Tensor hidden = micro.hidden(model), weight = model.head_weight();
  const ViewPredictions predictions = predictions_of(model, view, target);
  // Only a product with gradient keeps its softmax rows until the backward.
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad())) {
    options.head_mb = micro.take_head_mb(policy.options().head_mb, predictions.hidden.size(0),
                                         weight.size(0));
  }
  HeadResult result = head_of(model, hidden, predictions, options);
  // Other targets or temperatures are not the policy's log-probs, so the step does not report them.
  if (!target.defined() && options.temperature == 1 && options.columns == 0) {
    micro.note_scored(&policy, view, view.sum(result.logprob.detach()));
  }
  return result;
}

HeadResult policy_head(Policy& policy, Batch& batch, const HeadOptions& options) {
  return over_batch(policy, batch, options,
                    [&](const View& view) { return policy_head(policy, view, options); });
}

HeadResult reference_head(Reference& reference, const View& view, const HeadOptions& options,
                          const at::Tensor& target) {
  if (target.defined()) check_target(target, view.row_count());
  if (const auto& stand_in = reference.stand_in()) return stand_in->head(view, options, target);
  Model& model = reference.model();
  // The policy's forward keeps its graph, since the objective asks the policy for it too.
  const at::Tensor hidden = view.micro().hidden(model);
  const at::NoGradGuard no_grad;
  return head_of(model, hidden.detach(), predictions_of(model, view, target), options);
}

HeadResult reference_head(Reference& reference, Batch& batch, const HeadOptions& options) {
  return over_batch(reference, batch, options,
                    [&](const View& view) { return reference_head(reference, view, options); });
}

at::Tensor policy_logits(Policy& policy, const View& view) {
  if (const auto& stand_in = policy.stand_in()) {
    return stand_in->logits(view, read_model_config(policy.dir()).vocab);
  }
  Model& model = policy.model();
  const ComputedPack& pack = view.micro().computed(model);
  const at::Tensor hidden =
      model.forward(pack.input).index_select(0, view.select_rows(pack.row_hidden));
  return linear(hidden, model.head_weight(), {}, model.options().gemm).to(at::kFloat);
}

}  // namespace xrun
