// outputs of a view = rows of linear_head over the hidden states of the micro-batch's one forward.
// In a folded micro-batch the head computes each distinct prediction of the view once, as in
// MicroBatch::token_logprob, and every loss row reads its prediction.

#include "core/train/models/view_head.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>

#include <algorithm>

#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/model/ops/linear.h"
#include "core/prefix/folded_pack.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/computed_pack.h"

namespace xrun {

namespace {

// The rows of a view's product with the vocabulary.
struct ViewPredictions {
  at::Tensor hidden, target;  // [E], or target [E, M]
  at::Tensor of_row;          // [R] the prediction of each loss row; undefined: one for each
};

// Targets that an objective gives are separate predictions.
ViewPredictions predictions_of(Model& model, const View& view, const at::Tensor& given) {
  MicroBatch& micro = view.micro();
  const ComputedPack& pack = micro.computed(model);
  if (given.defined() || pack.fold == nullptr) {
    return {
        view.select_rows(pack.row_hidden),
        given.defined() ? on_device(given, micro.device()) : view.select_rows(micro.row_target()),
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

// The computed last tokens of a view's segments, [n] int64.
at::Tensor last_tokens(const View& view, Model& model) {
  const std::vector<int64_t>& last = view.micro().computed(model).last_token;
  std::vector<int64_t> tokens;
  for (const int64_t s : view.rows().segments) tokens.push_back(last[static_cast<size_t>(s)]);
  return on_device(int64_tensor(tokens), view.micro().device());
}

}  // namespace

HeadResult view_head(Model& model, const View& view, HeadOptions options, const at::Tensor& target,
                     int64_t head_mb) {
  MicroBatch& micro = view.micro();
  const at::Tensor hidden = micro.hidden(model), weight = model.head_weight();
  const ViewPredictions predictions = predictions_of(model, view, target);
  // Only a product with gradient keeps its softmax rows until the backward.
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad())) {
    options.head_mb = micro.take_head_mb(head_mb, predictions.hidden.size(0), weight.size(0));
  }
  HeadResult result = model.head(hidden, predictions.hidden, predictions.target, options);
  if (!predictions.of_row.defined()) return result;
  for (at::Tensor* output :
       {&result.logprob, &result.entropy, &result.lse, &result.top_logprob, &result.top_id}) {
    if (output->defined()) *output = at::index_select(*output, 0, predictions.of_row);
  }
  return result;
}

at::Tensor view_logits(Model& model, const View& view) {
  const ComputedPack& pack = view.micro().computed(model);
  const at::Tensor hidden =
      model.forward(pack.input).index_select(0, view.select_rows(pack.row_hidden));
  return linear(hidden, model.head_weight(), {}, model.options().gemm).to(at::kFloat);
}

at::Tensor view_score(Model& model, const View& view,
                      const std::function<const at::Tensor&()>& weight) {
  const at::Tensor hidden = view.micro().hidden(model);
  // fp32: a sum over D products in bf16 would leave two digits of a score.
  const at::Tensor last = at::index_select(hidden, 0, last_tokens(view, model)).to(at::kFloat);
  return linear(last, weight(), {}, GemmType::kStorage).select(1, 0);
}

}  // namespace xrun
