// list_folder checks each step of the listing: a range-for over a directory_iterator hides a folder
// that cannot be opened, and throws std::filesystem_error where the listing breaks off.

#include "core/base/folder.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/file.h"

namespace xrun {

namespace fs = std::filesystem;

namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

}  // namespace

std::vector<fs::path> list_folder(const fs::path& dir, std::error_code& code) {
  std::vector<fs::path> paths;
  fs::directory_iterator entry(dir, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    paths.push_back(entry->path());
  }
  if (code == std::errc::no_such_file_or_directory) code.clear();
  // A file system lists in any order.
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<fs::path> list_folder(const fs::path& dir) {
  std::error_code code;
  std::vector<fs::path> paths = list_folder(dir, code);
  if (code) {
    throw FileError(code.value(),
                    fmt::format("{}: cannot list the folder: {}", dir.string(), code.message()));
  }
  return paths;
}

fs::path working_folder() {
  std::error_code code;
  fs::path folder = fs::current_path(code);
  if (!code) return folder;
  throw FileError(code.value(), fmt::format("the current folder cannot be found: {}; it may have "
                                            "been removed: change to another folder",
                                            code.message()));
}

fs::path absolute_path(const fs::path& path) {
  return path.is_absolute() ? path : working_folder() / path;
}

std::vector<StepFile> step_files(const fs::path& dir, std::string_view ending) {
  constexpr std::string_view kPrefix = "step_";
  std::vector<StepFile> files;
  std::error_code ignored;
  for (const fs::path& path : list_folder(dir, ignored)) {
    const std::string name = path.filename().string();
    if (name.size() < kPrefix.size() + ending.size()) continue;
    if (!name.starts_with(kPrefix) || !name.ends_with(ending)) continue;
    int64_t step = 0;
    const char* const end = name.data() + name.size() - ending.size();
    const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
    if (error == std::errc() && stop == end && step >= 0) files.push_back({step, path});
  }
  // Names are padded to seven digits only, so the order of names is not that of larger numbers.
  std::sort(files.begin(), files.end(),
            [](const StepFile& a, const StepFile& b) { return a.step < b.step; });
  return files;
}

// For free space: a folder that does not exist yet will be on the disk of its nearest parent.
fs::path nearest_existing(const fs::path& dir) {
  std::error_code code;
  fs::path there = fs::absolute(dir, code);
  while (there.has_relative_path() && !fs::exists(there, code)) {
    there = there.parent_path();
  }
  return there;
}

std::vector<std::string> named_template_files(const fs::path& dir) {
  std::vector<std::string> files;
  for (const fs::path& path : list_folder(dir / kNamedTemplateFolder)) {
    if (path.extension() == ".jinja") files.push_back(path.filename());
  }
  return files;
}

std::string tilde_fix(std::string_view path) {
  if (path != "~" && !path.starts_with("~/")) return "";
  return fmt::format(
      "write $HOME{}: ~ is expanded by the shell alone, and only at the beginning of a word",
      path.substr(1));
}

// xrun's own variable first, then those of the XDG base directory specification.
fs::path cache_root() {
  if (const char* own = variable("XRUN_CACHE")) return own;
  if (const char* shared = variable("XDG_CACHE_HOME")) return fs::path(shared) / "xrun";
  const char* home = variable("HOME");
  XRUN_CHECK(home != nullptr,
             "none of XRUN_CACHE, XDG_CACHE_HOME and HOME is set; set XRUN_CACHE to a folder for "
             "caches");
  return fs::path(home) / ".cache" / "xrun";
}

}  // namespace xrun
