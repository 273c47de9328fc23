// The shipped recipes are in the folder recipes/ beside the program.

#include "tools/commands/recipe_hint.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

fs::path shipped_folder() { return program_path().parent_path() / "recipes"; }

std::vector<std::string> shipped_recipes() {
  std::vector<std::string> names;
  std::error_code none;
  for (const fs::path& file : list_folder(shipped_folder(), none)) {
    if (file.extension() == ".lua") names.push_back(file.stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool is_settings_file(std::string_view word) {
  const std::string ending = fs::path(word).extension().string();
  for (const char* known : {".yaml", ".yml", ".toml", ".json", ".py"}) {
    if (ending == known) return true;
  }
  return false;
}

std::string nearest_recipe(std::string_view word) {
  std::string stem = fs::path(word).stem().string();
  std::replace(stem.begin(), stem.end(), '-', '_');
  const std::vector<std::string> names = shipped_recipes();
  if (std::find(names.begin(), names.end(), stem) != names.end()) return stem;
  // Finds the longest name in the word: dr_grpo, not grpo, in my_dr_grpo.yaml; nothing in support.
  const std::string parts = "_" + stem + "_";
  std::string longest;
  for (const std::string& name : names) {
    const bool has = parts.find("_" + name + "_") != std::string::npos;
    if (has && name.size() > longest.size()) longest = name;
  }
  return longest.empty() ? nearest_name(stem, names) : longest;
}

std::string recipe_file(std::string_view word) {
  const std::string file = fs::path(word).replace_extension(".lua").string();
  return is_file(file) ? file : "";
}

std::string recipe_command(const std::string& recipe) {
  for (const std::string folder : {"", "recipes/"}) {
    const std::string here = folder + recipe + ".lua";
    if (is_file(here)) return fmt::format("{} {}", called_as(), here);
  }
  return fmt::format("{0} init {1} --recipe {1}", called_as(), recipe);
}

std::string settings_file_text(std::string_view word) {
  const std::string near = nearest_recipe(word);
  return fmt::format(
      "{}: a recipe is a Lua file that contains its settings; try {}; docs/coming-from.md lists "
      "other tools' keys",
      word, recipe_command(near.empty() ? "sft" : near));
}

}  // namespace xrun
