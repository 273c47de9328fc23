#include "core/base/named_templates.h"

#include <algorithm>

namespace xrun {

namespace fs = std::filesystem;

std::vector<std::string> named_template_files(const fs::path& dir) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir / kNamedTemplateFolder, ignored)) {
    if (entry.path().extension() == ".jinja") files.push_back(entry.path().filename());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace xrun
