#pragma once
// Watches how one optimizer step trains rollouts (update_record.h).

#include <memory>
#include <vector>

#include "core/rollout/update_record.h"
#include "core/train/step.h"

namespace xrun {

class AdamW;
class Ranks;

// The rollouts among the terms of one step. Wraps their objectives if the optimizer trains a
// policy, possibly the one under a value head; both arguments outlive this object.
class WatchedRollouts {
 public:
  WatchedRollouts(std::vector<StepTerm>& terms, const AdamW& adamw);
  bool empty() const { return updates_.empty(); }
  // Appends the metrics of the update, and adds it to the record; `ranks` shared the step, null:
  // one process.
  void report(UpdateRecord& record, Metrics& metrics, Ranks* ranks = nullptr) const;

 private:
  std::vector<std::unique_ptr<WatchedUpdate>> updates_;
};

}  // namespace xrun
