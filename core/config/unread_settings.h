#pragma once
// Settings of the engine that take effect only through the recipe's own lines, and that none reads.

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

// Returns a note for each such key: "dpo.lua:9: sampling has no effect: no line of dpo.lua reads
// cfg.sampling; ...". If a recipe reads some members of a table, each other member has its own
// note. There is none for a value of a base or a bundle, which serve several recipes, or for a
// recipe that passes its config on as a whole. Throws UsageError as checked_config does.
std::vector<std::string> unread_settings(const ScannedRecipe& recipe,
                                         const std::vector<std::string>& sets);

}  // namespace xrun
