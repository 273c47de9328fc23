#pragma once
// What a run is planned to hold in memory, checked before it loads and before it trains, and what
// it held.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/json.h"
#include "core/model/memory_plan.h"

namespace xrun {

class Policy;
struct StepLoop;

// Throws Error as check_memory does if weights, gradients and optimizer of a policy that will be
// trained are more than there is, whatever its batches are. Loads nothing.
void check_before_load(const Policy& policy);

// The plan of a run's policies over the batches of a loop, of which some are packed to know their
// sizes. Where a policy has a reference its twin counts, loaded or not.
class MemoryReport {
 public:
  // Plans, and throws Error as check_memory does. `references`: whether any was taken.
  static MemoryReport plan(const std::vector<std::shared_ptr<Policy>>& policies,
                           const StepLoop& loop, bool references);

  const std::vector<MemoryKind>& planned() const { return planned_; }
  // What tensors held at most since the plan was made, bytes.
  int64_t measured() const;
  // {"planned": {"total", kinds}, "measured": {"total", "weights", "rest", "rss"}}, in bytes.
  Json to_json() const;

 private:
  std::vector<MemoryKind> planned_;
  int64_t weights_ = 0;  // of the policies, as they are
};

}  // namespace xrun
