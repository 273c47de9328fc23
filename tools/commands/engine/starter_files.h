#pragma once
// The shipped recipes and their data, installed beside the program, for `xrun init` and `xrun
// doctor`.

#include <string>
#include <utility>
#include <vector>

namespace xrun {

// Returns the sorted names of the recipes: "dpo". Throws Error if they are missing.
std::vector<std::string> starter_recipes();

// Returns a recipe and the data that it reads: (path, text), the recipe first. Paths are "dpo.lua"
// and "data/NAME", and the recipe reads them from there. Empty if there is no recipe of that name.
// Throws Error if a file cannot be read.
std::vector<std::pair<std::string, std::string>> starter_files(const std::string& recipe);

}  // namespace xrun
