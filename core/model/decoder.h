#pragma once
// The forward of a dense decoder, as its config describes it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/compute_weights.h"
#include "core/model/hf_config.h"

namespace xrun {

class KvCache;
struct PackInput;

// Refers to the config and the parameters of its model.
class Decoder {
 public:
  Decoder(const ModelConfig& config, const std::vector<Parameter>& parameters,
          at::ScalarType compute);

  // Hidden states after the last norm, [T, D]. With a cache, segments are appended to its slots.
  at::Tensor forward(const PackInput& input, int64_t update_count, KvCache* cache);
  at::Tensor head_weight(int64_t update_count);

 private:
  // A linear map: places of weight and bias among the parameters, bias -1 if there is none.
  struct Linear {
    int64_t weight = -1, bias = -1;
  };
  struct Layer {
    int64_t input_norm, post_norm, q_norm = -1, k_norm = -1;
    Linear q, k, v, o, gate, up, down;
  };
  struct Pass;  // what the layers of one forward share

  int64_t place_of(const std::string& name) const;  // -1 if there is none
  Linear linear_of(const std::string& name) const;
  at::Tensor weight(const Pass& pass, int64_t place);
  at::Tensor apply(const Pass& pass, const Linear& linear, const at::Tensor& x);
  at::Tensor attention(const Pass& pass, int64_t index, const at::Tensor& x);
  at::Tensor feed_forward(const Pass& pass, const Layer& layer, const at::Tensor& x);

  const ModelConfig& config_;
  const std::vector<Parameter>& parameters_;
  ComputeWeights weights_;
  std::vector<Layer> layers_;
  int64_t embedding_, final_norm_, head_;
  at::Tensor inverse_frequencies_;  // [K/2] fp32
  at::ScalarType compute_;
};

}  // namespace xrun
