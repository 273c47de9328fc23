// The step gives sum_i o_i loss_i / sum_i o_i with the row weights o. A loss of
//   -w_i log p_i (sum o / sum o |w|)
// turns that into  -sum o w log p / sum o |w|;  Batch::set_field computes the factor in brackets.

#include "core/train/reinforce.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/batches/view.h"

namespace xrun {

at::Tensor reinforce(const at::Tensor& logprob, const at::Tensor& signed_weight) {
  XRUN_CHECK(logprob.sizes() == signed_weight.sizes(),
             "signed weights have shape [{}], wanted [{}] as the log-probs",
             fmt::join(signed_weight.sizes(), ", "), fmt::join(logprob.sizes(), ", "));
  const at::Tensor weight = signed_weight.detach();
  const at::Tensor total = weight.abs().sum();
  // Without a weight the numerator is 0 too; dividing by 1 keeps gradients 0 rather than NaN.
  return logprob.mul(weight).sum().neg().div(total.masked_fill(total.eq(0), 1));
}

at::Tensor reinforce(MicroBatch& micro, const at::Tensor& logprob,
                     const at::Tensor& signed_weight) {
  XRUN_CHECK(logprob.dim() == 1 && logprob.numel() == micro.row_count(),
             "log-probs have shape [{}], wanted [{}]: policy:token_logprob of the objective's "
             "argument",
             fmt::join(logprob.sizes(), ", "), micro.row_count());
  const MicroBatch::SignedField field = micro.signed_field(signed_weight);
  XRUN_CHECK(field.known,
             "signed weights inside an objective must be a field of the batch, because the "
             "denominator is the sum of |w| over the whole step, before its first forward: write "
             "batch.signed_weight = w in the loop and pass r.signed_weight, or pass r.advantage");
  micro.note_reinforced();
  const at::Tensor weight = field.by_row ? signed_weight : micro.all().spread(signed_weight);
  return logprob.mul(weight.detach().mul(field.scale)).neg();
}

}  // namespace xrun
