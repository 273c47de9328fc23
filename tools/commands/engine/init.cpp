// xrun init sets up a folder with a recipe, its data, and definitions for editors.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "lua/api/api_text.h"
#include "lua/prompt/prompt_verbs.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/copied_recipe.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/starter_files.h"

namespace xrun {

namespace {

using Files = std::vector<std::pair<std::string, std::string>>;  // path in the folder, text

constexpr const char* kTypes = ".xrun/types/xrun.lua";
constexpr const char* kEditor = R"({
  "$schema": "https://raw.githubusercontent.com/LuaLS/vscode-lua/master/setting/schema.json",
  "runtime.version": "LuaJIT",
  "workspace.library": [".xrun/types"],
  "workspace.checkThirdParty": false
}
)";

Files editor_files() {
  register_docs();
  return {{".luarc.json", kEditor}, {kTypes, editor_stubs()}};
}

Files files_of(const std::string& recipe) {
  Files files = starter_files(recipe);
  if (files.empty()) {
    const std::vector<std::string> names = starter_recipes();
    const std::string near = nearest_name(recipe, names);
    throw UsageError(fmt::format("unknown recipe \"{}\"{}; recipes: {}", recipe,
                                 near.empty() ? "" : " (did you mean " + near + "?)",
                                 fmt::join(names, ", ")));
  }
  for (auto& file : editor_files()) files.push_back(std::move(file));
  return files;
}

// Copies the shipped recipe, or the one that --from names, and prints a line per file. Returns the
// recipe with the settings that it needs, as words of a shell.
std::string fill_folder(const std::filesystem::path& folder, const std::string& recipe,
                        const std::string& from) {
  const auto say = [](const std::string& line) { fmt::print("{}\n", shown_text(line)); };
  Files files;
  std::string first;
  if (from.empty()) {
    files = files_of(recipe);
    first = shell_word(files.front().first);
  } else {
    const CopiedRecipe copied = copy_recipe(from, folder);
    for (const std::string& line : copied.lines) say(line);
    first = shell_word(copied.recipe) + copied.sets;
    files = editor_files();
  }
  for (const auto& [name, text] : files) {
    say(write_missing((folder / name).lexically_normal(), text));
  }
  return first;
}

}  // namespace

int command_init(int argc, char** argv) {
  CLI::App app(
      "Sets up a folder to work in: a shipped recipe with its data, or a copy of another recipe or "
      "of a bundle, and .luarc.json with the definitions of every name for editors. Existing files "
      "are not changed.",
      "xrun init");
  std::string dir = ".", recipe = "dpo", from;
  bool types = false;
  app.add_option("DIR", dir, "the folder; created if it is missing")->capture_default_str();
  app.add_option("--recipe", recipe, "the recipe to start from: dpo, sft, ...")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--from", from,
                 "start from this recipe with its modules, or from a bundle with all that it has")
      ->type_name("RECIPE.lua|FILE.xrb");
  app.add_flag("--types", types, "only rewrite the definitions for editors");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  const std::filesystem::path folder = dir;
  if (types) {
    register_docs();
    const std::filesystem::path path = folder / kTypes;
    make_dirs(path.parent_path());
    write_file_atomic(path, editor_stubs());
    fmt::print("wrote {}\n", path.string());
    return 0;
  }
  if (!from.empty() && app.count("--recipe") > 0) {
    throw UsageError("--recipe and --from both name the recipe to start from; give one");
  }
  const std::string first = fill_folder(folder, recipe, from);
  const std::string start = dir == "." ? "" : fmt::format("cd {} && ", shell_word(folder.string()));
  fmt::print(
      "\ntry it:  {1}{0} {2}\n"
      "look first: {0} check {2}; {0} inspect {2}\n"
      "offline, with a tiny random model: {0} init-model tiny --tokenizer bytes, then "
      "--set model=tiny\n",
      called_as(dir != "."), start, shown_text(first));
  return 0;
}

}  // namespace xrun
