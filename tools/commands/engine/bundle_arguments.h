#pragma once
// Recipes that come in bundles, for the commands that take a recipe.

#include <string>
#include <vector>

#include "core/share/opened_bundle.h"
#include "lua/bind/recipe.h"

namespace xrun {

// Returns the version, build and libraries of this program, for locks.
ProgramFacts program_facts();

// Returns the options with those of the bundle that `recipe` names: its recipe, its settings before
// the given --set, and the device and threads of its recorded run where none are given. Returns the
// options of any other recipe unchanged. Every command over a recipe calls this, so the field
// RecipeOptions::bundle marks all recipes that others may have written. Throws as open_bundle and
// accept_bundle do; `force` turns differences into notices.
RecipeOptions bundled_options(RecipeOptions options, bool force);

// Returns the options with the recipe and settings of the bundle that `recipe` names, for commands
// that only read the recipe. Compares neither inputs nor this program.
RecipeOptions unchecked_bundle(RecipeOptions options);

}  // namespace xrun
