#pragma once
// Finds the source of a config value: recipe line, base, --set or default (xrun explain --where).

#include <string>
#include <vector>

#include "core/config/config_scan.h"

namespace xrun {

// Returns, for a key or each value inside a table, "optim.lr = 0.0001  dpo.lua:8" with the line of
// its file, and the values of bases and of the file that it replaces. Throws UsageError as
// Config::resolve does, and with did-you-mean for a key that the config does not have.
std::string where_text(const ScannedRecipe& recipe, const std::vector<std::string>& sets,
                       const std::string& key);

}  // namespace xrun
