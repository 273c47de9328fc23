#pragma once
// Reads the text of a recipe and scans it for its config.

#include <string>

#include "core/config/config.h"
#include "lua/bind/recipe.h"

namespace xrun {

// Returns the text of options.recipe. Throws UsageError for a file that does not exist, with the
// nearest one, and for a file of rows.
std::string read_recipe(const RecipeOptions& options);

// Scans a text for its config, with the bases that it extends.
ScannedRecipe scan_recipe_of(const RecipeOptions& options, std::string text);

}  // namespace xrun
