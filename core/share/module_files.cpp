// The first candidate that is a file is the module, as Lua's own search path works.

#include "core/share/module_files.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace xrun {

namespace fs = std::filesystem;

std::vector<fs::path> module_candidates(const std::string& name, const fs::path& requiring_folder,
                                        const fs::path& recipe_folder) {
  if (name.starts_with("./") || name.starts_with("../")) {
    const fs::path path = requiring_folder / name;
    return {path.string() + ".lua", path};
  }
  std::string relative = name;
  std::replace(relative.begin(), relative.end(), '.', '/');
  std::vector<fs::path> found = {recipe_folder / (relative + ".lua")};
  const char* more = std::getenv("XRUN_PATH");
  std::string_view rest = more == nullptr ? "" : more;
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) found.push_back(fs::path(rest.substr(0, colon)) / (relative + ".lua"));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return found;
}

}  // namespace xrun
