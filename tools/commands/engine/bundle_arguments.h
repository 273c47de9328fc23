#pragma once
// Recipes that come in bundles, for the commands that take a recipe.

#include <string>
#include <vector>

#include "core/share/opened_bundle.h"
#include "lua/bind/recipe.h"

namespace xrun {

// Returns the version, build and libraries of this program, for locks.
ProgramFacts program_facts();

// Every command that takes a recipe passes its options through here, so that one place knows which
// recipes others may have written (RecipeOptions::bundle), and which paths those may read.
// Returns the options with those of the bundle that `recipe` names: its recipe, its settings before
// the given --set, device and threads of its recorded run where none are given. Options of another
// recipe are unchanged. Throws as open_bundle and accept_bundle do; `force` turns differences into
// notices.
RecipeOptions bundled_options(RecipeOptions options, bool force);

// The same for commands that only read the recipe: inputs and this program are not looked at.
RecipeOptions unchecked_bundle(RecipeOptions options);

}  // namespace xrun
