#pragma once
// Words in place of a recipe's file: a recipe's name alone, or a file of settings of another tool.

#include <string>
#include <string_view>

namespace xrun {

// True for config.yaml, config.toml, args.json, train.py: a file that other tools start from.
bool is_settings_file(std::string_view word);

// Returns the shipped recipe that a word means: "dpo" for dpo, dpoo.lua and my_dpo_config.yaml; ""
// if none is near.
std::string nearest_recipe(std::string_view word);

// Returns the sentence for a settings file: a recipe is a Lua file, with the nearest shipped one.
std::string settings_file_text(std::string_view word);

// Returns the file that a word without the right ending means, "dpo.lua" for dpo and dpo.lau; "" if
// there is none.
std::string recipe_file(std::string_view word);

// Returns the command that runs a shipped recipe, "xrun dpo.lua" or "xrun recipes/dpo.lua", or
// where the current folder has neither the one that makes a folder with it, "xrun init dpo --recipe
// dpo".
std::string recipe_command(const std::string& recipe);

}  // namespace xrun
