#pragma once
// The smallest change of the configuration with which a run fits into memory.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/model/memory_plan.h"

namespace xrun {

struct MemoryRemedy {
  std::string text;   // "recompute = true, head_mb = 64": only keys whose values change
  int64_t bytes = 0;  // upper bound of the run with the change
};

// Returns the first change that fits, in order from changes that cost a little time to changes that
// train something else; none if none fits.
//   longest  tokens of the longest unit, the lower limit of a micro-batch
//   fits     whether a run of so many bytes fits
std::optional<MemoryRemedy> smallest_remedy(const std::vector<PlannedModel>& models,
                                            int64_t longest,
                                            const std::function<bool(int64_t)>& fits);

}  // namespace xrun
