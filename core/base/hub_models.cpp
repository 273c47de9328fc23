// The folders are listed once, before the limits on an untrusted recipe take effect.

#include "core/base/hub_models.h"

#include <cstdlib>
#include <utility>

#include "core/base/folder.h"

namespace xrun {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> list_models() {
  std::vector<fs::path> models;
  const fs::path hub = hugging_face_hub();
  std::error_code none;
  if (hub.empty()) return models;
  for (fs::path& path : list_folder(hub, none)) {
    if (path.filename().string().starts_with("models--")) models.push_back(std::move(path));
  }
  return models;
}

}  // namespace

fs::path hugging_face_hub() {
  for (const auto& [name, below] : {std::pair{"HF_HUB_CACHE", ""},
                                    {"HF_HOME", "hub"},
                                    {"XDG_CACHE_HOME", "huggingface/hub"},
                                    {"HOME", ".cache/huggingface/hub"}}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && value[0] != '\0') return fs::path(value) / below;
  }
  return {};
}

const std::vector<fs::path>& hub_models() {
  static const std::vector<fs::path> models = list_models();
  return models;
}

}  // namespace xrun
