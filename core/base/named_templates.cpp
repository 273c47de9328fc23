#include "core/base/named_templates.h"

#include "core/base/folder_list.h"

namespace xrun {

namespace fs = std::filesystem;

std::vector<std::string> named_template_files(const fs::path& dir) {
  std::vector<std::string> files;
  for (const fs::path& path : list_folder(dir / kNamedTemplateFolder)) {
    if (path.extension() == ".jinja") files.push_back(path.filename());
  }
  return files;
}

}  // namespace xrun
