#pragma once
// The checks of a recipe's config.

#include <string>
#include <vector>

#include "core/config/recipe_text.h"

namespace xrun {

// Returns the config's literals with `sets` merged in. Throws UsageError for a --set without a key,
// unknown engine keys, keys that nobody reads, reads that no key answers, wrong types and ranges,
// and what is missing.
Literal check_config(const RecipeText& recipe, const std::vector<std::string>& sets);

}  // namespace xrun
