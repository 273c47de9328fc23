#pragma once
// Shows the origin of a config value: recipe line, base, --set or default (xrun explain --where).

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

// Returns "optim.lr = 0.0001  dpo.lua:8" for a value, or for each value inside a table, followed by
// that line of the file (for a default by its doc) and the values of bases and of the file that it
// replaces. Throws UsageError as Config::resolve does, and for a key that the config does not have,
// with a near one.
std::string where_text(const ScannedRecipe& recipe, const std::vector<std::string>& sets,
                       const std::string& key);

}  // namespace xrun
