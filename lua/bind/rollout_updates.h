#pragma once
// The updates of rollouts that adamw:step makes, watched (update_record.h).

#include <lua.hpp>
#include <memory>
#include <vector>

#include "core/rollout/update_record.h"
#include "core/train/step.h"

namespace xrun {

class AdamW;

// The rollouts among the terms of one step. Wraps the objectives of those that a policy of the
// optimizer trains; both outlive this object.
class WatchedRollouts {
 public:
  WatchedRollouts(std::vector<StepTerm>& terms, const AdamW& adamw);
  // Appends the metrics of the update, and adds it to the record of the open body.
  void report(lua_State* L, Metrics& metrics) const;

 private:
  std::vector<std::unique_ptr<WatchedUpdate>> updates_;
};

}  // namespace xrun
