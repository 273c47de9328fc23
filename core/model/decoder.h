#pragma once
// The forward pass of a decoder, built from its config.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/decoder_weights.h"
#include "core/model/ops/linear.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

class KvCache;
struct ForwardOptions;
struct LoadOptions;
struct PackInput;
struct ForwardState;

// One decoder for all families of models. Keeps references to the config, the parameters and the
// options of its model. Not thread-safe.
class Decoder {
 public:
  //   ranged  the first `ranged_count` parameters, without an adapter's factors; null: none
  Decoder(const ModelConfig& config, const std::vector<Parameter>& parameters,
          const LoadOptions& options, RangedWeights* ranged, size_t ranged_count);

  // Returns the hidden states after the last norm, [T, D] in the compute type, without the tokens
  // whose keys are held (ForwardOptions::held).
  //   update_count  Model::update_count; copies of weights are refreshed when it changes
  //   cache         segments are appended to its slots; null: none
  //   packed        weights for products with few rows; null: none
  //   routes        out: the experts of each token, as ForwardOptions::replay has them; null: not
  //                 wanted
  at::Tensor forward(const PackInput& input, int64_t update_count, const ForwardOptions& options,
                     KvCache* cache, const PackedWeights* packed = nullptr,
                     std::vector<at::Tensor>* routes = nullptr);
  at::Tensor head_weight(int64_t update_count);  // [V, D]
  int64_t head_parameter() const { return index_.head.weight; }
  // Returns the parameters whose products can read packed weights: the head, and linear maps if
  // they compute in fp32.
  std::vector<int64_t> packable() const;
  at::Tensor weight(int64_t parameter, int64_t update_count);  // in the compute type
  void forget_copies() { weights_.forget(); }
  void keep_fetched(bool keep) { weights_.keep_fetched(keep); }
  ComputeWeights& weights() { return weights_; }

 private:
  // Returns the embeddings of the tokens from index `first` on, [T - first, D].
  at::Tensor embed(const ForwardState& state, const PackInput& input, int64_t first) const;

  const ModelConfig& config_;
  ComputeWeights weights_;
  DecoderIndex index_;
  const LoadOptions& options_;
};

}  // namespace xrun
