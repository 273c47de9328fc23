#pragma once
// The files in which `require` looks for a module.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

// Returns the files that a name may mean, in order. "./name" and "../name" are beside the requiring
// file; any other name is NAME.lua in the recipe's folder, then in the folders of $XRUN_PATH, with
// dots for slashes.
std::vector<std::filesystem::path> module_candidates(const std::string& name,
                                                     const std::filesystem::path& requiring_folder,
                                                     const std::filesystem::path& recipe_folder);

}  // namespace xrun
