#pragma once
// Declares the arguments that every command over a recipe takes, and those of a run.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "lua/bind/recipe.h"

namespace xrun {

// Adds RECIPE, --set, --run, --device and --threads.
void add_recipe_arguments(CLI::App& app, RecipeOptions& options);

// Adds these and --resume, --force, --steps, --jit, --profile and --repl-at.
void add_run_arguments(CLI::App& app, RecipeOptions& options, std::optional<int64_t>& repl_at);

// Returns the parsed options of a command that reads a recipe without training it, with those of
// the bundle that it came in. With the folder of a run in --run, takes that run's settings as
// --resume does, and says so on standard error; a folder without a run is that of a run to come.
// Throws as bundled_options and resumed_options do, UsageError for a run of another recipe.
RecipeOptions preview_options(const CLI::App& app, RecipeOptions options);

}  // namespace xrun
