#pragma once
// The check that a run fits into memory, and the smallest change of its configuration that makes it
// fit.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/model/cost/memory_plan.h"

namespace xrun {

struct MemoryRemedy {
  std::string text;   // "recompute = true, head_mb = 64": only keys whose values change
  int64_t bytes = 0;  // upper bound of the run with the change
};

// Returns the first change that makes the run fit. Changes that only cost time come first, changes
// that train something else last. Returns nothing if none is enough.
//   longest  tokens of the longest unit, the lower limit of a micro-batch
//   fits     true if a run of that many bytes fits
std::optional<MemoryRemedy> smallest_remedy(const std::vector<PlannedModel>& models,
                                            int64_t longest,
                                            const std::function<bool(int64_t)>& fits);

// Throws Error if the models of a run need more than held + available. The message has the need by
// kind, the available memory, and the smallest change of the configuration that makes the run fit.
//   longest    tokens of the longest pair or sequence, the lower limit of a micro-batch
//   held       bytes of the plan that are allocated already
//   available  0: unknown, nothing is refused
void check_memory(const std::vector<PlannedModel>& models, int64_t longest, int64_t held,
                  int64_t available);

}  // namespace xrun
