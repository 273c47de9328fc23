// x = embed(tokens); per layer x += O attn(rms(x)), x += MLP(rms(x)); hidden = rms(x).

#include "core/model/decoder.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>

#include <cmath>

#include "core/base/error.h"
#include "core/model/attention.h"
#include "core/model/kv_cache.h"
#include "core/model/model.h"
#include "core/model/rms_norm.h"
#include "core/model/rope.h"
#include "core/model/swiglu.h"

namespace xrun {

struct Decoder::Pass {
  RopeAngles angles;
  std::vector<int64_t> cu_seqlens;
  int64_t update_count;
  KvCache* cache;
};

Decoder::Decoder(const ModelConfig& config, const std::vector<Parameter>& parameters,
                 at::ScalarType compute)
    : config_(config),
      parameters_(parameters),
      weights_(parameters, compute),
      inverse_frequencies_(rope_inverse_frequencies(config.rope, config.head_dim)),
      compute_(compute) {
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string at = fmt::format("model.layers.{}.", i);
    Layer layer;
    layer.input_norm = place_of(at + "input_layernorm.weight");
    layer.post_norm = place_of(at + "post_attention_layernorm.weight");
    layer.q_norm = place_of(at + "self_attn.q_norm.weight");
    layer.k_norm = place_of(at + "self_attn.k_norm.weight");
    layer.q = linear_of(at + "self_attn.q_proj");
    layer.k = linear_of(at + "self_attn.k_proj");
    layer.v = linear_of(at + "self_attn.v_proj");
    layer.o = linear_of(at + "self_attn.o_proj");
    layer.gate = linear_of(at + "mlp.gate_proj");
    layer.up = linear_of(at + "mlp.up_proj");
    layer.down = linear_of(at + "mlp.down_proj");
    layers_.push_back(layer);
  }
  embedding_ = place_of("model.embed_tokens.weight");
  final_norm_ = place_of("model.norm.weight");
  head_ = config.tied ? embedding_ : place_of("lm_head.weight");
}

int64_t Decoder::place_of(const std::string& name) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == name) return static_cast<int64_t>(i);
  }
  return -1;
}

Decoder::Linear Decoder::linear_of(const std::string& name) const {
  return {place_of(name + ".weight"), place_of(name + ".bias")};
}

at::Tensor Decoder::weight(const Pass& pass, int64_t place) {
  return weights_.get(static_cast<size_t>(place), pass.update_count);
}

at::Tensor Decoder::apply(const Pass& pass, const Linear& linear, const at::Tensor& x) {
  if (linear.bias < 0) return at::linear(x, weight(pass, linear.weight));
  return at::linear(x, weight(pass, linear.weight), weight(pass, linear.bias));
}

at::Tensor Decoder::attention(const Pass& pass, int64_t index, const at::Tensor& x) {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  const int64_t T = x.size(0), K = config_.head_dim;
  at::Tensor q = apply(pass, layer.q, x).view({T, config_.heads, K});
  at::Tensor k = apply(pass, layer.k, x).view({T, config_.kv_heads, K});
  const at::Tensor v = apply(pass, layer.v, x).view({T, config_.kv_heads, K});
  if (layer.q_norm >= 0) {
    q = rms_norm(q, weight(pass, layer.q_norm), config_.norm_eps);
    k = rms_norm(k, weight(pass, layer.k_norm), config_.norm_eps);
  }
  q = rope(q, pass.angles);
  k = rope(k, pass.angles);
  const double scale = 1.0 / std::sqrt(static_cast<double>(K));
  const at::Tensor y = pass.cache != nullptr
                           ? pass.cache->attend(index, q, k, v, pass.cu_seqlens, scale)
                           : varlen_attention(q, k, v, pass.cu_seqlens, scale);
  return apply(pass, layer.o, y.view({T, config_.heads * K}));
}

at::Tensor Decoder::feed_forward(const Pass& pass, const Layer& layer, const at::Tensor& x) {
  return apply(pass, layer.down, swiglu(apply(pass, layer.gate, x), apply(pass, layer.up, x)));
}

at::Tensor Decoder::forward(const PackInput& input, int64_t update_count, KvCache* cache) {
  Pass pass{rope_angles(inverse_frequencies_, input.position_ids, compute_),
            {input.cu_seqlens.begin(), input.cu_seqlens.end()},
            update_count,
            cache};
  at::Tensor x = at::embedding(weight(pass, embedding_), input.tokens);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    x = x.add(attention(pass, static_cast<int64_t>(i),
                        rms_norm(x, weight(pass, layer.input_norm), config_.norm_eps)));
    x = x.add(
        feed_forward(pass, layer, rms_norm(x, weight(pass, layer.post_norm), config_.norm_eps)));
  }
  if (cache != nullptr) cache->advance(pass.cu_seqlens);
  return rms_norm(x, weight(pass, final_norm_), config_.norm_eps);
}

at::Tensor Decoder::head_weight(int64_t update_count) {
  return weights_.get(static_cast<size_t>(head_), update_count);
}

}  // namespace xrun
