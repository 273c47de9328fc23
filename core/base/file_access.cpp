// A path is compared after its links are resolved, component by component: "data-2" is not in
// "data". A link whose target is missing has no resolved form, so it is refused.

#include "core/base/file_access.h"

#include <algorithm>
#include <memory>

#include "core/base/error.h"
#include "core/base/folder.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

std::unique_ptr<const FileAccess> limits;
std::vector<fs::path> paths_named;

// The path without links; "" if it has none.
fs::path resolved(const fs::path& path) {
  std::error_code code;
  const fs::path real = fs::weakly_canonical(path, code);
  if (code) return {};
  // weakly_canonical does not resolve a link whose target is missing.
  fs::path walked;
  for (const fs::path& part : real) {
    walked /= part;
    if (fs::is_symlink(fs::symlink_status(walked, code))) return {};
  }
  // "folder/" has an empty last component.
  return real.has_filename() ? real : real.parent_path();
}

bool is_below(const fs::path& path, const std::vector<fs::path>& roots) {
  return std::any_of(roots.begin(), roots.end(), [&](const fs::path& root) {
    return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
  });
}

std::vector<fs::path> resolved_all(const std::vector<fs::path>& paths) {
  std::vector<fs::path> out;
  for (const fs::path& path : paths) {
    fs::path real = resolved(absolute_path(path));
    if (!real.empty()) out.push_back(std::move(real));
  }
  return out;
}

[[noreturn]] void refuse(const fs::path& path, const char* verb, const char* option) {
  throw Error(
      fmt::format("{}: may not be {}: a recipe that is not trusted {}. --trusted runs it without "
                  "limits",
                  path.string(), verb, option));
}

}  // namespace

void limit_file_access(const FileAccess* access) {
  if (access == nullptr) {
    limits.reset();
    return;
  }
  limits = std::make_unique<const FileAccess>(
      FileAccess{resolved_all(access->readable), resolved_all(access->writable)});
}

bool file_access_limited() { return limits != nullptr; }

void set_named_paths(std::vector<fs::path> paths) { paths_named = std::move(paths); }

const std::vector<fs::path>& named_paths() { return paths_named; }

void check_read(const fs::path& path) {
  if (!limits) return;
  const fs::path real = resolved(path.empty() ? working_folder() : absolute_path(path));
  if (!real.empty() && (is_below(real, limits->readable) || is_below(real, limits->writable))) {
    return;
  }
  refuse(path, "read",
         "reads its own folder and what the command line names, and follows no link out of them; "
         "name it with --read PATH or --set KEY=PATH");
}

void check_write(const fs::path& path) {
  if (!limits) return;
  const fs::path real = resolved(absolute_path(path));
  if (!real.empty() && is_below(real, limits->writable)) return;
  refuse(path, "written", "writes its run's folder alone; name that with --run DIR");
}

}  // namespace xrun
