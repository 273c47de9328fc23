// A batch is scored micro-batch by micro-batch, without gradient, by the ranks that share it, and
// brought into batch order.

#include "core/train/models/logprob_source.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <iterator>
#include <vector>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/whole_batch.h"

namespace xrun {

namespace {

constexpr at::Tensor HeadResult::*kOutputs[] = {&HeadResult::logprob, &HeadResult::entropy,
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

}  // namespace

HeadResult LogprobSource::head(const View& view, const HeadOptions& options,
                               const at::Tensor& target) {
  if (target.defined()) check_target(target, view.row_count());
  return answering().own_head(view, options, target);
}

at::Tensor LogprobSource::token_logprob(Batch& batch) {
  const at::NoGradGuard no_grad;
  const auto score = [this](MicroBatch& micro) { return token_logprob(micro.all()); };
  return batch.in_batch_order(score_micros_once(batch, "log-probs of tokens", score),
                              /*by_row=*/true);
}

at::Tensor LogprobSource::logprob(Batch& batch) {
  const at::NoGradGuard no_grad;
  const auto score = [this](MicroBatch& micro) { return logprob(micro.all()); };
  return batch.in_batch_order(score_micros_once(batch, "log-probs", score), /*by_row=*/false);
}

HeadResult LogprobSource::head(Batch& batch, const HeadOptions& options) {
  const at::NoGradGuard no_grad;
  if (batch.micros().empty()) return no_rows(model().head_weight(), options);
  const auto results = score_micros(batch, "outputs of the head", [&](MicroBatch& micro) {
    const HeadResult result = head(micro.all(), options);
    // Only the outputs are needed again; the hidden states of a large batch are not.
    micro.free_hidden();
    std::vector<at::Tensor> outputs;
    for (const auto output : kOutputs) outputs.push_back(result.*output);
    return outputs;
  });
  HeadResult whole;
  for (size_t k = 0; k < std::size(kOutputs); ++k) {
    std::vector<at::Tensor> parts;
    for (const std::vector<at::Tensor>& result : results) {
      // Outputs that the options did not ask for are undefined in every micro-batch.
      if (result[k].defined()) parts.push_back(result[k]);
    }
    if (!parts.empty()) whole.*kOutputs[k] = batch.in_batch_order(parts, /*by_row=*/true);
  }
  return whole;
}

}  // namespace xrun
