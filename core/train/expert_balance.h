#pragma once
// Load and balance of the experts in one step, and the balance term of its loss.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/ops/moe_routing.h"
#include "core/train/step.h"

namespace xrun {

class AdamW;
class MicroBatch;
class Model;
class Ranks;

// Balance of the first trained policy (or scorer's policy) that is a mixture of experts; without
// one every method does nothing.
class ExpertBalance {
 public:
  ExpertBalance() = default;  // no policy
  explicit ExpertBalance(const AdamW& adamw);

  // Counts the slots of the whole step, which the term of every micro-batch needs. If there is a
  // term and more than one micro-batch, this costs one forward of each, without gradient and head.
  // Ranks (null: one process) share the forwards.
  void count(const std::vector<StepTerm>& terms, const std::function<void()>& poll, Ranks* ranks);

  // Adds the routing of a micro-batch, number `number` of the step. Returns its share of moe_aux
  // times the balance loss, a 0-dim fp32 tensor with its graph; undefined if there is no term or
  // the policy scored nothing.
  at::Tensor share(const MicroBatch& micro, int64_t number);

  // message() returns the routing of this rank's micro-batches; take() replaces it by that of all
  // ranks.
  std::string message() const;
  void take(const std::vector<std::string>& messages);

  // Adds train/moe/*, and perf/moe_counted if count() made forwards; nothing if nothing was routed.
  void report(Metrics& metrics) const;

 private:
  Model* model_ = nullptr;
  double weight_ = 0;  // moe_aux of the policy
  // By the number of the micro-batch; without graphs.
  using Records = std::vector<std::pair<int64_t, RouterRecord>>;
  static std::string write(const Records& records);
  static Records read(const std::vector<std::string>& messages);
  static RouterTotals totals_of(const Records& records);

  RouterTotals step_;
  Records seen_;
  int64_t counted_ = 0;  // forwards
};

}  // namespace xrun
