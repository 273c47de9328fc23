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

// Returns the parsed options of a command that looks at a recipe without running it: with those of
// the bundle that it came in, and of the run in --run as --resume takes them, which a line on
// standard error says. A folder without a run is that of a run to come. Throws as bundled_options
// and resumed_options do, UsageError for a run of another recipe.
RecipeOptions preview_options(const CLI::App& app, RecipeOptions options);

}  // namespace xrun
