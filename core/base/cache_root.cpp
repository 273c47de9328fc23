#include "core/base/cache_root.h"

#include <cstdlib>

#include "core/base/error.h"

namespace xrun {

namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

}  // namespace

std::filesystem::path cache_root() {
  if (const char* own = variable("XRUN_CACHE")) return own;
  if (const char* shared = variable("XDG_CACHE_HOME"))
    return std::filesystem::path(shared) / "xrun";
  const char* home = variable("HOME");
  XRUN_CHECK(home != nullptr,
             "neither XRUN_CACHE, XDG_CACHE_HOME nor HOME is set; set XRUN_CACHE "
             "to a folder for caches");
  return std::filesystem::path(home) / ".cache" / "xrun";
}

}  // namespace xrun
