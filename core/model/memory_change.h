#pragma once
// The smallest change of a configuration with which a run fits into memory.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/model/memory_plan.h"

namespace xrun {

struct MemoryChange {
  std::string text;   // "recompute = true, head_mb = 64": keys that have other values now, no other
  int64_t bytes = 0;  // what the run takes with it, at most
};

// Returns the first change that fits, from what costs a little time to what trains something else;
// none if none does.
//   longest  tokens of the longest unit, which no micro-batch can be smaller than
//   fits     whether a run of so many bytes does
std::optional<MemoryChange> smallest_change(const std::vector<PlannedModel>& models,
                                            int64_t longest,
                                            const std::function<bool(int64_t)>& fits);

}  // namespace xrun
