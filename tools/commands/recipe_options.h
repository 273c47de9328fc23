#pragma once
// The options that every command over a recipe takes.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace xrun {

// Their values.
struct RecipeOptionFields {
  std::string& recipe;
  std::vector<std::string>& sets;
  std::string& run_dir;
  std::string& device;
  int& threads;
};

// Adds RECIPE, --set, --run, --device and --threads.
void add_recipe_options(CLI::App& app, const RecipeOptionFields& fields);

}  // namespace xrun
