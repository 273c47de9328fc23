#include "core/train/policy_head.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/model/device.h"
#include "core/train/batch.h"
#include "core/train/policy.h"

namespace xrun {

namespace {

void check_target(const at::Tensor& target, int64_t rows) {
  XRUN_CHECK(target.scalar_type() == at::kLong, "targets are {}, wanted whole numbers (i64)",
             c10::toString(target.scalar_type()));
  XRUN_CHECK((target.dim() == 1 || target.dim() == 2) && target.size(0) == rows,
             "targets are [{}], wanted [{}] or [{}, M]: a row for each trained token of the view",
             fmt::join(target.sizes(), ", "), rows, rows);
}

// What a batch without micro-batches gives: outputs of their shapes, options checked as ever.
HeadResult no_rows(const at::Tensor& weight, const HeadOptions& options) {
  const at::Tensor none = at::empty({0}, weight.options().dtype(at::kLong));
  return linear_head(at::empty({0, weight.size(1)}, weight.options()), weight, none, none, options);
}

}  // namespace

HeadResult policy_head(Policy& policy, const View& view, HeadOptions options,
                       const at::Tensor& target) {
  if (target.defined()) check_target(target, view.row_count());
  MicroBatch& micro = view.micro();
  const at::Tensor hidden = micro.hidden(policy.model()), weight = policy.model().head_weight();
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad())) {
    options.head_mb =
        micro.take_head_mb(policy.options().head_mb, view.row_count(), weight.size(0));
  }
  HeadResult result = linear_head(
      hidden, weight, view.select_rows(micro.row_hidden()),
      target.defined() ? on_device(target, micro.device()) : view.select_rows(micro.row_target()),
      options);
  if (!target.defined() && options.temperature == 1 && options.columns == 0) {
    micro.note_scored(&policy, view, view.sum(result.logprob.detach()));
  }
  return result;
}

HeadResult policy_head(Policy& policy, Batch& batch, const HeadOptions& options) {
  const at::NoGradGuard no_grad;
  if (batch.micros().empty()) return no_rows(policy.model().head_weight(), options);
  std::vector<HeadResult> results;
  for (const auto& micro : batch.micros()) {
    results.push_back(policy_head(policy, micro->all(), options));
    micro->free_hidden();
  }
  HeadResult whole;
  for (const auto output : {&HeadResult::logprob, &HeadResult::entropy, &HeadResult::lse,
                            &HeadResult::top_logprob, &HeadResult::top_id}) {
    std::vector<at::Tensor> parts;
    for (const HeadResult& one : results) {
      if ((one.*output).defined()) parts.push_back(one.*output);
    }
    if (!parts.empty()) whole.*output = batch.in_batch_order(parts, /*by_row=*/true);
  }
  return whole;
}

}  // namespace xrun
