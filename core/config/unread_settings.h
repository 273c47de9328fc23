#pragma once
// Finds settings of the engine that take effect only if the recipe reads them, and that it does
// not.

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

// Returns a note for each such key: "dpo.lua:9: sampling has no effect: no line of dpo.lua reads
// cfg.sampling; ...". If a recipe reads some members of a table, each other member has its own
// note. Values of a base or a bundle, which serve several recipes, have none, and a recipe that
// passes its config on as a whole has none. Throws UsageError as checked_config does.
std::vector<std::string> unread_settings(const ScannedRecipe& recipe,
                                         const std::vector<std::string>& sets);

}  // namespace xrun
