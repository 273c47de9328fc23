// A batch is scored micro-batch by micro-batch, without gradient, and brought into batch order.

#include "core/train/logprob_source.h"

#include <ATen/core/grad_mode.h>

#include <vector>

#include "core/train/batch.h"

namespace xrun {

at::Tensor LogprobSource::token_logprob(Batch& batch) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const auto& micro : batch.micros()) parts.push_back(token_logprob(micro->all()));
  return batch.in_batch_order(parts, /*by_row=*/true);
}

at::Tensor LogprobSource::logprob(Batch& batch) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (const auto& micro : batch.micros()) parts.push_back(logprob(micro->all()));
  return batch.in_batch_order(parts, /*by_row=*/false);
}

}  // namespace xrun
