// Returns paths below the two folders that the build passes to this file alone (tree.h).

#include "tests/tree.h"

namespace xrun {

namespace {

std::string within(const std::string& folder, const std::string& path) {
  return path.empty() ? folder : folder + "/" + path;
}

}  // namespace

std::string source_path(const std::string& path) { return within(XRUN_SOURCE_DIR, path); }

std::string binary_path(const std::string& path) { return within(XRUN_BINARY_DIR, path); }

}  // namespace xrun
