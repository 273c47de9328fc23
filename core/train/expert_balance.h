#pragma once
// Load and balance of the experts in one step, and the balance term of its loss.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/model/ops/moe_routing.h"
#include "core/train/step.h"

namespace xrun {

class AdamW;
class MicroBatch;
class Model;

// Balance of the first trained policy (or scorer's policy) that is a mixture of experts; without
// one every method does nothing.
class ExpertBalance {
 public:
  ExpertBalance() = default;  // no policy
  explicit ExpertBalance(const AdamW& adamw);

  // Counts the slots of a whole step, which every micro-batch's term needs: one forward of each
  // without gradient and head, if there is a term and more than one micro-batch.
  void count(const std::vector<StepTerm>& terms, const std::function<void()>& poll);

  // Adds the routing of a micro-batch. Returns its share of moe_aux times the balance loss, a
  // 0-dim fp32 tensor with its graph; undefined if there is no term or the policy scored nothing.
  at::Tensor share(const MicroBatch& micro);

  // Adds train/moe/*, and perf/moe_counted if count() made forwards. Nothing if nothing was routed.
  void report(Metrics& metrics) const;

 private:
  Model* model_ = nullptr;
  double weight_ = 0;  // moe_aux of the policy
  RouterTotals step_, seen_;
  int64_t counted_ = 0;  // forwards
};

}  // namespace xrun
