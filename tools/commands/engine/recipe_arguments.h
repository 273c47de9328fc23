#pragma once
// The arguments that every command over a recipe takes, and those of a run.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "lua/bind/recipe.h"

namespace xrun {

// Adds RECIPE, --set, --run, --device and --threads.
void add_recipe_arguments(CLI::App& app, RecipeOptions& options);

// Adds those and --resume, --force, --steps, --jit, --profile and --repl-at.
void add_run_arguments(CLI::App& app, RecipeOptions& options, std::optional<int64_t>& repl_at);

}  // namespace xrun
