#pragma once
// The check of a recipe's config: the engine's keys have their types and ranges, every other key is
// read, and every read has a key.

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

// Returns the literals of a recipe's config, without defaults, after applying `sets`, each
// "key=value" of --set. Throws UsageError for the first fault, as "file:line: ..." with an excerpt
// or as "--set key=value: ...", with a suggestion if a known name is near.
Literal checked_config(const ScannedRecipe& recipe, const std::vector<std::string>& sets);

}  // namespace xrun
