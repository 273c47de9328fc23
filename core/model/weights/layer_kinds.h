#pragma once
// Sums over all layers of a model, computed from one layer of each kind.

#include <vector>

#include "core/model/weights/hf_config.h"

namespace xrun {

struct LayerKind {
  ModelConfig model;  // with one layer of this kind
  double count;       // layers of this kind
};

// A config may claim any number of layers, so sizes are computed for one layer of a kind: dense, or
// a mixture of experts.
class LayerKinds {
 public:
  explicit LayerKinds(const ModelConfig& config);

  const std::vector<LayerKind>& all() const { return kinds_; }

  // Returns the sum of `elements` (ModelConfig -> double) over the whole model: once outside the
  // layers, and each kind times its count.
  template <typename Elements>
  double sum(const Elements& elements) const {
    const double outside = elements(none_);
    double sum = outside;
    for (const LayerKind& kind : kinds_) sum += kind.count * (elements(kind.model) - outside);
    return sum;
  }

 private:
  ModelConfig none_;  // without layers
  std::vector<LayerKind> kinds_;
};

}  // namespace xrun
