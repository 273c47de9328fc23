// sum(model) = outside + sum over kinds of count (model with one such layer - outside).

#include "core/model/weights/layer_kinds.h"

#include <algorithm>
#include <cstdint>

namespace xrun {

namespace {

// The config of a model with that many equal layers.
ModelConfig with_layers(const ModelConfig& config, int64_t layers, bool is_moe) {
  ModelConfig changed = config;
  changed.layers = layers;
  changed.moe_layers.assign(static_cast<size_t>(layers), is_moe ? 1 : 0);
  return changed;
}

}  // namespace

LayerKinds::LayerKinds(const ModelConfig& config) {
  ModelConfig bare = config;
  // No sum over weights depends on these, and they may be large.
  bare.source = Json();
  bare.windows.clear();
  none_ = with_layers(bare, 0, false);
  const auto mixtures =
      static_cast<double>(std::count_if(config.moe_layers.begin(), config.moe_layers.end(),
                                        [](uint8_t is_moe) { return is_moe != 0; }));
  const double dense = static_cast<double>(config.layers) - mixtures;
  if (dense > 0) kinds_.push_back({with_layers(bare, 1, false), dense});
  if (mixtures > 0) kinds_.push_back({with_layers(bare, 1, true), mixtures});
}

}  // namespace xrun
