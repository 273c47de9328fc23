#pragma once
// Field-by-field differences of two JSON values, as a refusal to resume prints them.

#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// One differing field; a side that lacks the field reads "absent".
struct Difference {
  std::string path;    // "config.optim.lr", "data.1.path" (list elements count from 1)
  std::string before;  // the value as JSON, at most 60 bytes
  std::string now;
};

// Returns the differences in the order of `before`, then of keys that only `now` has. The order of
// keys in an object is no difference.
std::vector<Difference> find_differences(const Json& before, const Json& now,
                                         const std::string& path);

// Returns "  path: NOW, was BEFORE" lines, one a difference, each with its newline.
std::string describe_differences(const std::vector<Difference>& differences);

}  // namespace xrun
