// A range-for over a directory_iterator hides a folder that cannot be opened, and throws
// std::filesystem_error where the listing breaks off: here each step is looked at.

#include "core/base/folder_list.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"

namespace xrun {

namespace fs = std::filesystem;

std::vector<fs::path> list_folder(const fs::path& dir, std::error_code& code) {
  std::vector<fs::path> paths;
  fs::directory_iterator entry(dir, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    paths.push_back(entry->path());
  }
  if (code == std::errc::no_such_file_or_directory) code.clear();
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

std::filesystem::path nearest_existing(const std::filesystem::path& dir) {
  std::error_code code;
  std::filesystem::path there = std::filesystem::absolute(dir, code);
  while (there.has_relative_path() && !std::filesystem::exists(there, code)) {
    there = there.parent_path();
  }
  return there;
}

}  // namespace xrun
