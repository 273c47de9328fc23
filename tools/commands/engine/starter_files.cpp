// recipes/NAME.lua reads recipes/data/FILE or all files of recipes/data/FOLDER; a new folder has
// both without "recipes/".

#include "tools/commands/engine/starter_files.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/running_program.h"

namespace xrun {

namespace {

constexpr const char* kRecipes = "recipes";
constexpr const char* kData = "recipes/data/";

std::filesystem::path beside_program(const std::string& path) {
  return program_path().parent_path() / path;
}

// Returns the names of the files and folders of a folder, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::error_code code;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(folder, code), end; !code && at != end;
       at.increment(code)) {
    names.push_back(at->path().filename().string());
  }
  XRUN_CHECK(!code, "{}: cannot be read: {}; run ./xrun, which puts the shipped recipes there",
             folder.string(), code.message());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> starter_recipes() {
  std::vector<std::string> names = names_in(beside_program(kRecipes));
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".lua"); });
  for (std::string& name : names) name.resize(name.size() - 4);
  return names;
}

std::vector<std::pair<std::string, std::string>> starter_files(const std::string& recipe) {
  const std::vector<std::string> known = starter_recipes();
  if (std::find(known.begin(), known.end(), recipe) == known.end()) return {};
  std::string text = read_file(beside_program(kRecipes) / (recipe + ".lua"));
  std::vector<std::pair<std::string, std::string>> files = {{recipe + ".lua", ""}};
  for (const std::string& name : names_in(beside_program(kData))) {
    const std::string path = kData + name;
    // In quotes, since one name may begin another.
    if (text.find("\"" + path + "\"") == std::string::npos) continue;
    const std::string short_path = "data/" + name;
    for (size_t at = 0; (at = text.find(path, at)) != std::string::npos;) {
      text.replace(at, path.size(), short_path);
    }
    if (!is_folder(beside_program(path))) {
      files.emplace_back(short_path, read_file(beside_program(path)));
      continue;
    }
    for (const std::string& inner : names_in(beside_program(path))) {
      files.emplace_back(short_path + "/" + inner, read_file(beside_program(path) / inner));
    }
  }
  files.front().second = std::move(text);
  return files;
}

}  // namespace xrun
