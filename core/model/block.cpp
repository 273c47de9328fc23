#include "core/model/block.h"

#include <ATen/ops/layer_norm.h>

#include <array>
#include <cmath>

#include "core/model/weights/adapter.h"
#include "core/model/ops/attention.h"
#include "core/model/compute_weights.h"
#include "core/model/feed_forward.h"
#include "core/model/weights/hf_config.h"
#include "core/model/kv_cache.h"
#include "core/model/ops/rms_norm.h"

namespace xrun {

namespace {

// q [T, H, K], k and v [T, G, K].
std::array<at::Tensor, 3> project(const Pass& pass, const BlockPlaces& places,
                                  const at::Tensor& x) {
  const ModelConfig& c = pass.config;
  const int64_t T = x.size(0), K = c.head_dim;
  std::array<at::Tensor, 3> qkv;
  if (places.qkv.weight >= 0) {
    const at::Tensor all = pass.linear(places.qkv, x).view({T, c.heads + 2 * c.kv_heads, K});
    qkv = {all.narrow(1, 0, c.heads), all.narrow(1, c.heads, c.kv_heads),
           all.narrow(1, c.heads + c.kv_heads, c.kv_heads)};
  } else {
    qkv = {pass.linear(places.q, x).view({T, c.heads, K}),
           pass.linear(places.k, x).view({T, c.kv_heads, K}),
           pass.linear(places.v, x).view({T, c.kv_heads, K})};
  }
  if (c.qk_norm) {
    qkv[0] = rms_norm(qkv[0], pass.weight(places.q_norm.weight), c.norm_eps);
    qkv[1] = rms_norm(qkv[1], pass.weight(places.k_norm.weight), c.norm_eps);
  }
  return qkv;
}

double score_scale(const ModelConfig& c, int64_t layer) {
  const double scale =
      c.score_scale != 0 ? c.score_scale : 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  return c.score_by_layer ? scale / static_cast<double>(layer + 1) : scale;
}

at::Tensor attention(const Pass& pass, const BlockPlaces& places, int64_t layer,
                     const at::Tensor& x) {
  const ModelConfig& c = pass.config;
  auto [q, k, v] = project(pass, places, x);
  if (c.positions == Positions::kRotary) {
    q = rope(q, pass.angles);
    k = rope(k, pass.angles);
  }
  const double scale = score_scale(c, layer);
  const int64_t window = c.window(layer);
  const at::Tensor y = pass.cache != nullptr
                           ? pass.cache->attend(layer, q, k, v, pass.cu_seqlens, scale, window)
                           : varlen_attention(q, k, v, pass.cu_seqlens, scale, window);
  return pass.linear(places.o, y.view({x.size(0), c.heads * c.head_dim}));
}

}  // namespace

at::Tensor Pass::weight(int64_t place) const {
  return weights.get(static_cast<size_t>(place), update_count);
}

at::Tensor Pass::linear(const WeightPlace& place, const at::Tensor& x) const {
  const at::Tensor bias = place.bias < 0 ? at::Tensor() : weight(place.bias);
  const at::Tensor y = xrun::linear(x, weight(place.weight), bias, gemm);
  if (adapter == nullptr || place.low_a < 0) return y;
  const double rate = dropout ? adapter->options.dropout : 0;
  const at::Tensor read = rate > 0 ? dropped(x, rate, *dropout, place.low_a) : x;
  return y.add(low_rank(read, weight(place.low_a), weight(place.low_b), adapter->scale(), gemm));
}

at::Tensor Pass::norm(const WeightPlace& place, const at::Tensor& x) const {
  if (config.norm == Norm::kRms) return rms_norm(x, weight(place.weight), config.norm_eps);
  return at::layer_norm(x, {x.size(-1)}, weight(place.weight), weight(place.bias), config.norm_eps);
}

at::Tensor block(const Pass& pass, const BlockPlaces& places, int64_t layer, const at::Tensor& x) {
  const at::Tensor y = x.add(attention(pass, places, layer, pass.norm(places.input_norm, x)));
  return y.add(feed_forward(pass, places, pass.norm(places.post_norm, y)));
}

}  // namespace xrun
