#pragma once
// A model as most tests load it.

#include <filesystem>
#include <memory>

#include "core/model/model.h"

namespace xrun {

inline std::shared_ptr<Model> load_model(const std::filesystem::path& dir, at::ScalarType dtype,
                                         bool trainable) {
  return Model::load(dir, {.dtype = dtype, .trainable = trainable});
}

}  // namespace xrun
