#pragma once
// One block of a decoder: x += O attention(norm(x)), then x += feed_forward(norm(x)).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/ops/linear.h"
#include "core/model/ops/low_rank.h"
#include "core/model/ops/rope.h"
#include "core/model/weight_places.h"

namespace xrun {

class ComputeWeights;
class KvCache;
struct Adapter;
struct ModelConfig;
struct RouterRecord;

// What the blocks of one forward share. Refers to the model's config and weights.
struct Pass {
  const ModelConfig& config;
  ComputeWeights& weights;
  int64_t update_count = 0;
  std::vector<int64_t> cu_seqlens = {};
  RopeAngles angles = {};    // undefined where positions are learned
  KvCache* cache = nullptr;  // segments are appended to its slots; null: none
  GemmType gemm = GemmType::kStorage;
  RouterRecord* router = nullptr;  // what MoE layers chose is added to it; null: not wanted
  const Adapter* adapter = nullptr;                  // what stands on linear maps; null: nothing
  std::optional<DropoutKey> dropout = std::nullopt;  // of what adapters read; nullopt: none

  // A weight in the compute type, with its graph if gradients are enabled.
  at::Tensor weight(int64_t place) const;
  // x W^T + b and what an adapter adds, [T, out].
  at::Tensor linear(const WeightPlace& place, const at::Tensor& x) const;
  // The family's norm over the last dimension.
  at::Tensor norm(const WeightPlace& place, const at::Tensor& x) const;
};

// Returns the block's output, [T, D].
//   x      [T, D] in the compute type
//   layer  from 0; the cache and the score scale know it
at::Tensor block(const Pass& pass, const BlockPlaces& places, int64_t layer, const at::Tensor& x);

}  // namespace xrun
