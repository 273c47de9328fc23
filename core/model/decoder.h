#pragma once
// The forward of a decoder as described by its config.

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

// Refers to the config and the parameters of its model. Independent of the family.
class Decoder {
 public:
  //   ranged  the first `ranged_count` parameters, without an adapter's factors; null: none
  Decoder(const ModelConfig& config, const std::vector<Parameter>& parameters,
          const LoadOptions& options, RangedWeights* ranged, size_t ranged_count);

  // Returns the hidden states after the last norm, [T, D]. With a cache, segments are appended to
  // its slots. `routes` gets the experts of each token, as ForwardOptions::replay has them.
  at::Tensor forward(const PackInput& input, int64_t update_count, const ForwardOptions& options,
                     KvCache* cache, const PackedWeights* packed = nullptr,
                     std::vector<at::Tensor>* routes = nullptr);
  at::Tensor head_weight(int64_t update_count);
  int64_t head_parameter() const { return index_.head.weight; }
  // The parameters whose products read packed weights: the head, and linear maps in fp32.
  std::vector<int64_t> packable() const;
  at::Tensor weight(int64_t parameter, int64_t update_count);
  void forget_copies() { weights_.forget(); }
  void keep_fetched(bool keep) { weights_.keep_fetched(keep); }
  ComputeWeights& weights() { return weights_; }

 private:
  // Embeds the tokens from index `first` on.
  at::Tensor embed(const ForwardState& pass, const PackInput& input, int64_t first) const;

  const ModelConfig& config_;
  ComputeWeights weights_;
  DecoderIndex index_;
  const LoadOptions& options_;
};

}  // namespace xrun
