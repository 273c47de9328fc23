#pragma once
// A copy of a recipe to start from: `xrun init --from`.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

struct CopiedRecipe {
  std::string recipe;              // its path in the folder
  std::vector<std::string> lines;  // "wrote DIR/dpo.lua", "kept  DIR/lib/scale.lua", then notes
  std::string sets;                // that the copy needs, as shell words: " --set model=tiny"
};

// Copies a recipe with its modules and the bases of its config into a folder; of a bundle also the
// data, models and templates that it has, with the recipe's spelling of them changed to the copies.
// A recipe's relative paths of files that exist here become settings with absolute paths, and a
// bundle's own settings name its copies. Existing files are kept. Nothing is run. Throws as reading
// the recipe or the bundle does.
CopiedRecipe copy_recipe(const std::string& from, const std::filesystem::path& folder);

// Writes a file unless it is there. Returns "wrote PATH" or "kept  PATH".
std::string write_missing(const std::filesystem::path& path, std::string_view text);

}  // namespace xrun
