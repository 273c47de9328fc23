#pragma once
// The weights that a sampler reads: converted and packed at most once per update of the policy.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/decoder_weights.h"

namespace xrun {

class KvCache;
class Model;
struct PackInput;

// Refers to the model. Not thread-safe.
class SamplerWeights {
 public:
  explicit SamplerWeights(Model& model) : model_(model) {}

  // Takes the model's present weights. Returns whether they are others than before.
  bool refresh();
  int64_t version() const { return version_; }  // the update count of the last refresh

  // Counts a decoding step; after a few, packs the weights if memory allows (Model::pack).
  void count_step();
  int64_t times_packed() const { return times_packed_; }

  // Model::forward_cached.
  at::Tensor forward(const PackInput& input, KvCache& cache,
                     std::vector<at::Tensor>* routes = nullptr);
  // Returns hidden [n, D] times the head, [n, V] fp32 in scratch memory.
  at::Tensor logits(const at::Tensor& hidden) const;

 private:
  // Null unless packed at this version.
  const PackedWeights* packed() const {
    return packed_.update_count() == version_ ? &packed_ : nullptr;
  }

  Model& model_;
  int64_t version_ = -1;
  int64_t steps_ = 0;  // of decoding, at this version
  at::Tensor head_;    // [V, D] fp32, until it is packed
  PackedWeights packed_;
  bool refused_ = false;  // packing, for lack of memory
  int64_t times_packed_ = 0;
};

}  // namespace xrun
