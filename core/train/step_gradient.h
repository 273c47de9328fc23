#pragma once
// Forward, objective and backward of every micro-batch of a step, dealt to its ranks.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/train/expert_balance.h"
#include "core/train/metric_sums.h"
#include "core/train/step.h"
#include "core/train/weighted_loss.h"

namespace xrun {

struct WorkItem;

// Values of a step that are summed over ranks.
struct RankCounts {
  double flops = 0, recomputed = 0;
};

// The gradient of one step, added to the optimizer's trainables, with the sums of its metrics.
class StepGradient {
 public:
  // Null `adamw` makes a dry step, which reads no model. Both arguments must outlive this object.
  StepGradient(AdamW* adamw, const StepOptions& options);

  // Computes this rank's share of all micro-batches. `totals` are the unit weights of each term
  // over the whole step. Throws what objectives and poll throw.
  void accumulate(const std::vector<StepTerm>& terms, const std::vector<UnitTotals>& totals);

  // Reads metrics and gradient norm of all ranks from the device, once per step. Replaces this
  // rank's `counts` by the sums over ranks. Throws NonFiniteLoss, or what poll throws if a rank is
  // to stop.
  MetricSums::ReadSums read(const std::vector<StepTerm>& terms, const at::Tensor& grad_norm,
                            RankCounts& counts);

  const ExpertBalance& experts() const { return experts_; }
  // After read: the weights of the units that the losses are counted in, summed over micro-batches
  // and ranks.
  double loss_weight() const { return loss_weight_; }

 private:
  // The losses of one micro-batch, held until the step knows whether they and the gradient are
  // finite.
  struct MicroLosses {
    ObjectiveResult losses;                     // detached
    std::vector<at::Tensor> logprob_gradients;  // [R] of each trained model
    const MicroBatch* micro;
    int64_t number;  // among the micro-batches of the step
    int64_t term;
    size_t micro_count;
  };

  MetricSums::ReadSums checked(MetricSums::ReadSums read, const std::vector<StepTerm>& terms) const;
  void check_loss(const MetricSums::MicroLoss& loss) const;
  void check_own_loss(int64_t number) const;
  void check_gradients() const;
  void check_own_gradients() const;
  void accumulate_item(const WorkItem& item, const std::vector<StepTerm>& terms,
                       const std::vector<UnitTotals>& totals);
  void add(MicroBatch& micro, int64_t number, const std::vector<StepTerm>& terms, size_t i,
           const UnitTotals& totals);

  const StepOptions& options_;
  AdamW* adamw_;  // null: a dry step
  Ranks* ranks_;  // null: one process
  std::vector<const LogprobSource*> sources_;
  ExpertBalance experts_;
  MetricSums sums_;
  double loss_weight_ = 0;
  std::vector<MicroLosses> losses_;  // of this rank's micro-batches
};

}  // namespace xrun
