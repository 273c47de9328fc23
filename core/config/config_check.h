#pragma once
// The check of a recipe's config: the engine's keys have their types and ranges, every other key is
// read, and every read has a key.

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

// Returns the literals of a recipe's config after `sets`, each "key=value" of --set; without
// defaults. Throws UsageError for the first breach: "file:line: ..." with an excerpt, or "--set
// key=value: ..."; with a suggestion where one is near.
Literal checked_config(const ScannedRecipe& recipe, const std::vector<std::string>& sets);

}  // namespace xrun
