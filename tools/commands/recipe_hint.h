#pragma once
// Hints for a word that is given instead of a recipe's file: a recipe's name, or a settings file of
// another tool.

#include <string>
#include <string_view>

namespace xrun {

// Returns true for a file that other tools start from: config.yaml, config.toml, args.json,
// train.py.
bool is_settings_file(std::string_view word);

// Returns the shipped recipe that a word means: "dpo" for dpo, dpoo.lua and my_dpo_config.yaml; ""
// if none is near.
std::string nearest_recipe(std::string_view word);

// Returns the sentence for a settings file: a recipe is a Lua file, with the nearest shipped one.
std::string settings_file_text(std::string_view word);

// Returns the file that a word without the right ending means, "dpo.lua" for dpo and dpo.lau; "" if
// there is no such file.
std::string recipe_file(std::string_view word);

// Returns the command that runs a shipped recipe, "xrun dpo.lua" or "xrun recipes/dpo.lua". If the
// current folder has neither file, returns the command that makes a folder with it, "xrun init dpo
// --recipe dpo".
std::string recipe_command(const std::string& recipe);

}  // namespace xrun
