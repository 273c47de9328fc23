// Members under recipe/ lose that part of their name; every other member keeps its name. The folder
// may be one in which other programs look for files of theirs (.git, .envrc), so of a stranger's
// bundle only code and the recipe's inputs are copied.

#include "tools/commands/engine/copied_recipe.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/bundle/bundle_file.h"
#include "core/share/input_files.h"
#include "core/share/recipe_sources.h"
#include "lua/bind/recipe.h"
#include "lua/bind/recipe_text.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCode = "recipe/";

std::string without_code(const std::string& member) {
  return member.starts_with(kCode) ? member.substr(kCode.size()) : member;
}

bool is_hidden(const fs::path& path) {
  return std::any_of(path.begin(), path.end(),
                     [](const fs::path& part) { return part.string().starts_with('.'); });
}

// Replaces the quoted spelling of each name.
std::string respelled(std::string text, const std::map<std::string, std::string>& names) {
  for (const auto& [name, path] : names) {
    for (const char* quote : {"\"", "'"}) {
      const std::string from = quote + name + quote, to = quote + path + quote;
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
        text.replace(at, from.size(), to);
      }
    }
  }
  return text;
}

// A setting "KEY=VALUE" of a bundle with the copies of its inputs in the value, which is a Lua
// literal or bare text.
std::string respelled_set(const std::string& set, const std::map<std::string, std::string>& names) {
  const size_t value = std::min(set.find('='), set.size() - 1) + 1;
  const auto bare = names.find(set.substr(value));
  return bare == names.end() ? respelled(set, names) : set.substr(0, value) + bare->second;
}

CopiedRecipe copy_bundle(const std::string& file, const fs::path& folder) {
  const Bundle bundle = Bundle::open(file);
  const BundleLock& lock = bundle.lock();
  CopiedRecipe copied{.recipe = without_code(lock.recipe), .lines = {}, .sets = {}};
  std::map<std::string, std::string> names;
  std::vector<std::string> notes;
  for (const LockedInput& input : lock.inputs) {
    const std::string path = bundled_path(input);
    if (!path.empty()) {
      names[input.name] = path;
    } else {
      notes.push_back(fmt::format(
          "{} {} is not in the bundle, or not all of it; give the path of yours with --set",
          input_kind_name(input.kind), input.name));
    }
  }
  // The lock marks the copy as someone else's, so it runs with limits, like the bundle.
  copied.lines.push_back(write_missing((folder / kBundleLock).lexically_normal(), lock_text(lock)));
  std::set<std::string> written;
  for (const LockedFile& member : lock.members) {
    const std::string_view bytes = bundle.text(member.name);
    const std::string name = without_code(member.name);
    const fs::path path = (folder / name).lexically_normal();
    const bool lua = member.name.starts_with(kCode) && member.name.ends_with(".lua");
    if (is_hidden(name) || (member.name.starts_with(kCode) && !lua)) {
      copied.lines.push_back(
          fmt::format("left out {}: it is neither code nor an input", member.name));
      continue;
    }
    XRUN_CHECK(written.insert(name).second, "{}: two of its members would become {}", file,
               path.string());
    copied.lines.push_back(
        write_missing(path, lua ? respelled(std::string(bytes), names) : std::string(bytes)));
  }
  for (const std::string& set : lock.sets) {
    copied.sets += " --set " + shell_word(respelled_set(set, names));
  }
  notes.push_back(
      fmt::format("{}: with it the recipe is not trusted; remove it once you have read "
                  "the code",
                  (folder / kBundleLock).lexically_normal().string()));
  if (!copied.sets.empty()) {
    notes.push_back(
        "the bundle has settings that its recipe has not; the commands below give them");
  }
  for (std::string& note : notes) copied.lines.push_back("note: " + note);
  return copied;
}

// Appends the path of every string in a config that equals `name`: "data.1.path".
void add_keys(const Json& value, const std::string& path, const std::string& name,
              std::vector<std::string>& keys) {
  if (value.is_string() && value.as_string() == name) keys.push_back(path);
  const auto below = [&](const Json& member, const std::string& key) {
    add_keys(member, path.empty() ? key : path + "." + key, name, keys);
  };
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) below(value.as_array()[i], std::to_string(i + 1));
  }
  if (value.is_object()) {
    for (const auto& [key, member] : value.as_object()) below(member, key);
  }
}

// Returns the absolute path of a file, folder or glob that a recipe names; "" if it is neither in
// the current folder nor in one above the recipe, as for a model that is named by the registry.
std::string path_of(const std::string& name, const fs::path& recipe) {
  const std::string begin = split_glob(name).first;
  const bool glob = name.find_first_of("*?[") != std::string::npos && !path_exists(name);
  std::vector<fs::path> folders = {working_folder()};
  fs::path above = absolute_path(recipe).lexically_normal();
  while (above.has_relative_path()) folders.push_back(above = above.parent_path());
  for (const fs::path& folder : folders) {
    if (path_exists(folder / (glob ? begin : name))) {
      return (folder / name).lexically_normal().string();
    }
  }
  return "";
}

CopiedRecipe copy_file(const std::string& file, const fs::path& folder) {
  RecipeOptions options;
  options.recipe = file;
  const ScannedRecipe scanned = scan_recipe_of(options, read_recipe(options));
  const Config config = Config::resolve(scanned);
  const RecipeSources sources = read_recipe_sources(file, scanned, config);
  CopiedRecipe copied{.recipe = without_code(sources.recipe), .lines = {}, .sets = {}};
  for (const SourceFile& source : sources.files) {
    const fs::path path = (folder / without_code(source.member)).lexically_normal();
    copied.lines.push_back(write_missing(path, source.text));
  }
  std::vector<NamedInput> inputs = sources.inputs;
  // A template in the current folder is an input already; one beside the recipe is not.
  if (const Json* text = config.find("template"); text != nullptr && text->is_string()) {
    const NamedInput input{InputKind::kTemplate, text->as_string()};
    if (std::ranges::find(inputs, input) == inputs.end()) inputs.push_back(input);
  }
  for (const NamedInput& input : inputs) {
    if (fs::path(input.name).is_absolute()) continue;
    const std::string path = path_of(input.name, file);
    // A name of the registry, or a built-in template, is the same in every folder.
    if (path.empty() && input.kind != InputKind::kData) continue;
    std::vector<std::string> keys;
    add_keys(config.values(), "", input.name, keys);
    std::string sets;
    for (const std::string& key : keys) {
      sets += " --set " + shell_word(key + "=" + (path.empty() ? "FILE" : path));
    }
    const std::string what = path.empty()
                                 ? "which is not in this folder; name yours by"
                                 : "which stays where it is; from the new folder it is found by";
    // The recipe names it, but no setting does.
    if (keys.empty()) sets = " editing its text" + (path.empty() ? "" : " to " + path);
    copied.lines.push_back(fmt::format("note: it reads {} {}, {}{}", input_kind_name(input.kind),
                                       input.name, what, sets));
    if (!path.empty() && !keys.empty()) copied.sets += sets;
  }
  return copied;
}

}  // namespace

std::string write_missing(const fs::path& path, std::string_view text) {
  if (path_exists(path)) return "kept  " + path.string();
  if (path.has_parent_path()) make_dirs(path.parent_path());
  write_file_atomic(path, text);
  return "wrote " + path.string();
}

CopiedRecipe copy_recipe(const std::string& from, const fs::path& folder) {
  return is_bundle_name(from) ? copy_bundle(from, folder) : copy_file(from, folder);
}

}  // namespace xrun
