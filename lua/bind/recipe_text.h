#pragma once
// The text of a recipe: found, read and scanned for its config.

#include <string>

#include "core/config/config.h"
#include "lua/bind/recipe.h"

namespace xrun {

// Returns the text of the options' recipe. Throws UsageError with the nearest file if there is
// none, and for a file of rows.
std::string read_recipe(const RecipeOptions& options);

// The config of a text, with the bases that it extends.
ScannedRecipe scan_recipe_of(const RecipeOptions& options, std::string text);

}  // namespace xrun
