#pragma once
// Reads the shipped recipes and their data, which are installed beside the program.

#include <string>
#include <utility>
#include <vector>

namespace xrun {

// Returns the sorted names of the recipes: "dpo". Throws Error if they are missing.
std::vector<std::string> starter_recipes();

// Returns (path, text) of a recipe and then of the data that it reads; empty if there is no recipe
// of that name. Paths are "dpo.lua" and "data/NAME", as the returned recipe names them. Throws
// Error if a file cannot be read.
std::vector<std::pair<std::string, std::string>> starter_files(const std::string& recipe);

}  // namespace xrun
