// For a missing file, suggests the nearest recipe of its folder or of recipes/.

#include "lua/bind/recipe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/config/config_base.h"
#include "core/data/cache/data_files.h"

namespace xrun {

std::string read_recipe(const RecipeOptions& options) {
  namespace fs = std::filesystem;
  const std::string& name = options.recipe;
  if (options.bundle) return read_file(options.bundle->local_path(name), kMostRecipeBytes);
  std::error_code code;
  // An error here is reported by the read, with its reason.
  if (fs::exists(name, code) || code) {
    if (is_data_name(name)) throw UsageError(data_as_recipe_text(name));
    std::string text = read_file(name, kMostRecipeBytes);
    // No Lua text begins with these.
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin != std::string::npos && (text[begin] == '{' || text[begin] == '[')) {
      throw UsageError(data_as_recipe_text(name));
    }
    return text;
  }
  const fs::path path = name;
  std::string near;
  for (const fs::path& folder : {path.parent_path(), fs::path("recipes")}) {
    std::vector<std::string> names;
    for (fs::directory_iterator at(folder.empty() ? "." : folder, code), end; !code && at != end;
         at.increment(code)) {
      const fs::path file = at->path().filename();
      if (file.extension() == ".lua") names.push_back(file.stem().string());
    }
    const std::string stem = path.stem().string();
    // The right name in the other folder is better than a similar one.
    const bool same = std::find(names.begin(), names.end(), stem) != names.end();
    const std::string found = same ? stem : nearest_name(stem, names);
    if (near.empty() && !found.empty()) near = (folder / (found + ".lua")).string();
  }
  std::string hint;
  if (!near.empty()) {
    hint = "; did you mean " + near + "?";
  } else if (path.is_relative()) {
    hint = "; the current folder is " + fs::current_path(code).string();
  }
  throw UsageError(fmt::format("{}: cannot be opened: there is no such file{}", name, hint));
}

ScannedRecipe scan_recipe_of(const RecipeOptions& options, std::string text) {
  LocalPath local;
  if (options.bundle) {
    local = [&](const std::string& file) { return options.bundle->local_path(file); };
  }
  return scan_with_bases(options.recipe, std::move(text), local);
}

}  // namespace xrun
