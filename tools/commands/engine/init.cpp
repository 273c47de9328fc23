// xrun init: a folder to start in, with a recipe, its data, and definitions for editors.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/called_as.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "lua/api/api_text.h"
#include "lua/prompt/prompt_verbs.h"
#include "tools/commands/command_line.h"
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

Files files_of(const std::string& recipe) {
  Files files = starter_files(recipe);
  if (files.empty()) {
    const std::vector<std::string> names = starter_recipes();
    const std::string near = nearest_name(recipe, names);
    throw UsageError(fmt::format("unknown recipe \"{}\"{}; recipes: {}", recipe,
                                 near.empty() ? "" : " (did you mean " + near + "?)",
                                 fmt::join(names, ", ")));
  }
  register_docs();
  files.emplace_back(".luarc.json", kEditor);
  files.emplace_back(kTypes, editor_stubs());
  return files;
}

// Never overwrites. Returns whether the file was written.
bool write_new(const std::filesystem::path& path, const std::string& text) {
  if (path_exists(path)) return false;
  if (path.has_parent_path()) make_dirs(path.parent_path());
  write_file_atomic(path, text);
  return true;
}

}  // namespace

int command_init(int argc, char** argv) {
  CLI::App app(
      "Sets up a folder to work in: a shipped recipe with its data, and .luarc.json with the "
      "definitions of every name for editors. Existing files are not changed.",
      "xrun init");
  std::string dir = ".", recipe = "dpo";
  bool types = false;
  app.add_option("DIR", dir, "the folder; created if it is missing")->capture_default_str();
  app.add_option("--recipe", recipe, "the recipe to start from: dpo, sft, ...")
      ->type_name("NAME")
      ->capture_default_str();
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
  const Files files = files_of(recipe);
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = (folder / name).lexically_normal();
    fmt::print("{} {}\n", write_new(path, text) ? "wrote" : "kept ", path.string());
  }
  const std::string start = dir == "." ? "" : fmt::format("cd {} && ", folder.string());
  fmt::print(
      "\ntry it:  {1}{0} {2}\n"
      "look first: {0} check {2}; {0} inspect {2}\n"
      "offline, with a tiny random model: {0} init-model tiny --tokenizer bytes, then "
      "--set model=tiny\n",
      called_as(dir != "."), start, files.front().first);
  return 0;
}

}  // namespace xrun
