// Members under recipe/ lose that part of their name; every other member keeps its name. The folder
// may be one in which other programs look for files of theirs (.git, .envrc), so of a stranger's
// bundle only code and the recipe's inputs are copied.

#include "tools/commands/engine/copied_recipe.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/bundle/bundle_file.h"
#include "core/share/input_files.h"
#include "core/share/recipe_sources.h"
#include "lua/bind/recipe.h"

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

CopiedRecipe copy_bundle(const std::string& file, const fs::path& folder) {
  const Bundle bundle = Bundle::open(file);
  const BundleLock& lock = bundle.lock();
  CopiedRecipe copied{.recipe = without_code(lock.recipe), .lines = {}};
  std::map<std::string, std::string> names;
  std::vector<std::string> notes;
  for (const LockedInput& input : lock.inputs) {
    const std::string path = bundled_path(input);
    if (!path.empty()) {
      names[input.name] = path;
    } else {
      notes.push_back(
          fmt::format("{} {} is not in the bundle", input_kind_name(input.kind), input.name));
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
  std::string sets;
  for (const std::string& set : lock.sets) add_item(sets, "--set " + shell_word(set), " ");
  notes.push_back(
      fmt::format("{}: with it the recipe is not trusted; remove it once you have read "
                  "the code",
                  (folder / kBundleLock).lexically_normal().string()));
  if (!sets.empty()) notes.push_back("the bundle was made with " + sets);
  for (std::string& note : notes) copied.lines.push_back("note: " + note);
  return copied;
}

CopiedRecipe copy_file(const std::string& file, const fs::path& folder) {
  RecipeOptions options;
  options.recipe = file;
  const ScannedRecipe scanned = scan_recipe_of(options, read_recipe(options));
  const RecipeSources sources = read_recipe_sources(file, scanned, Config::resolve(scanned));
  CopiedRecipe copied{.recipe = without_code(sources.recipe), .lines = {}};
  for (const SourceFile& source : sources.files) {
    const fs::path path = (folder / without_code(source.member)).lexically_normal();
    copied.lines.push_back(write_missing(path, source.text));
  }
  for (const NamedInput& input : sources.inputs) {
    if (input.kind == InputKind::kModel || fs::path(input.name).is_absolute()) continue;
    copied.lines.push_back(fmt::format("note: it reads {}, which stays where it is", input.name));
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
