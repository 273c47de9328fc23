#pragma once
// Settings of the engine that take effect only through the recipe's own lines, and that none reads.

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

// Returns a note for each such table, or member of one of whose others some are read: "dpo.lua:9:
// sampling has no effect: no line reads cfg.sampling; ...". Values of a base and of a bundle get
// none, since they serve several recipes, nor does a recipe that passes its config on as a whole.
// Throws UsageError as checked_config does.
std::vector<std::string> unread_settings(const ScannedRecipe& recipe,
                                         const std::vector<std::string>& sets);

}  // namespace xrun
