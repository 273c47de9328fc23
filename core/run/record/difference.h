#pragma once
// Field-by-field differences of two JSON values, each with its value before and now.

#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// One differing field; a side that lacks the field reads "absent".
struct Difference {
  std::string path;  // "config.optim.lr", "data.1.path" (list elements count from 1)
  // As JSON. Of a long value some 60 bytes are shown, from about where the two begin to differ.
  std::string before, now;
};

// Returns the differences in the order of `before`, then of keys that only `now` has. Two objects
// whose keys are in another order are equal.
std::vector<Difference> find_differences(const Json& before, const Json& now,
                                         const std::string& path);

// Returns one line per difference, "  path: BEFORE -> NOW\n".
std::string describe_differences(const std::vector<Difference>& differences);

}  // namespace xrun
