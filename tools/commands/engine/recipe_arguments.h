#pragma once
// The arguments that every command over a recipe takes.

#include <CLI/CLI.hpp>

#include "lua/bind/recipe.h"

namespace xrun {

// Adds RECIPE, --set, --run, --device and --threads.
void add_recipe_arguments(CLI::App& app, RecipeOptions& options);

}  // namespace xrun
