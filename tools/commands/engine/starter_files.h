#pragma once
// The shipped recipes and their data, which lie beside the program: what `xrun init` starts a
// folder with, and what `xrun doctor` trains.

#include <string>
#include <utility>
#include <vector>

namespace xrun {

// The names of the recipes, sorted: "dpo". Throws Error if they are not there.
std::vector<std::string> starter_recipes();

// A recipe and the data that it reads: (path, text), the recipe first. Paths are "dpo.lua" and
// "data/NAME", and the recipe reads them from there. Empty if there is no recipe of that name.
// Throws Error if a file cannot be read.
std::vector<std::pair<std::string, std::string>> starter_files(const std::string& recipe);

}  // namespace xrun
