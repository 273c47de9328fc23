#pragma once
// One block of a decoder: x += norm(O attention(norm(x))), then x += norm(feed_forward(norm(x))).
// Each family uses some of the four norms.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/model/decoder_weights.h"
#include "core/model/ops/attention_layout.h"
#include "core/model/ops/dropout.h"
#include "core/model/ops/linear.h"
#include "core/model/ops/rope.h"

namespace xrun {

class ComputeWeights;
class KvCache;
class PackedWeights;
struct Adapter;
struct AdapterOptions;
struct HeldKeys;
struct ModelConfig;
struct RouterRecord;

// State shared by the blocks of one forward. Refers to the model's config and weights.
struct ForwardState {
  const ModelConfig& config;
  ComputeWeights& weights;
  int64_t update_count = 0;
  AttentionLayout layout = {};            // the window is that of each layer
  RopeAngles angles = {};                 // undefined where positions are learned
  KvCache* cache = nullptr;               // segments are appended to its slots; null: none
  const PackedWeights* packed = nullptr;  // of linear maps, at this update count; null: none
  GemmType gemm = GemmType::kStorage;
  RouterRecord* router = nullptr;                    // collects MoE routing; null: not wanted
  at::Tensor multiplicity = {};                      // ForwardOptions::multiplicity
  const Adapter* adapter = nullptr;                  // of the linear maps; null: none
  std::optional<DropoutKey> dropout = std::nullopt;  // of adapter inputs; nullopt: none
  std::vector<HeldKeys>* keys = nullptr;             // ForwardOptions::keys
  std::shared_ptr<const std::vector<HeldKeys>> held = nullptr;      // ForwardOptions::held
  std::shared_ptr<const std::vector<at::Tensor>> replay = nullptr;  // ForwardOptions::replay
  std::vector<at::Tensor>* routes = nullptr;  // out: the experts of each token, by layer

  // Returns a weight in the compute type, with its graph if gradients are enabled.
  at::Tensor weight(int64_t parameter) const;
  // Returns x W^T + b plus the adapter's term, [T, out].
  at::Tensor linear(const WeightIndex& index, const at::Tensor& x) const;
  // Returns the family's norm over the last dimension; x itself if the family lacks this one.
  at::Tensor norm(const WeightIndex& index, const at::Tensor& x) const;
};

// Returns the block's output, [T, D] in the compute type.
//   x      [T, D] in the compute type
//   layer  from 0; selects the cache layer and the score scale
at::Tensor block(const ForwardState& state, const BlockIndex& index, int64_t layer,
                 const at::Tensor& x);

// The memory of a block in bytes, as its operators declare it (ops/op_memory.h).
struct BlockMemory {
  double saved = 0;     // per token, tensors kept for the backward, each counted once
  double forward = 0;   // per token, the peak of a forward that records no graph
  double backward = 0;  // per token, the peak of a backward, without gradients of weights
  double gradient = 0;  // the largest gradients of weights that exist before they are accumulated
};

// Returns the memory of the block of `config`, a model of one layer.
//   dtype    of activations
//   adapter  trained instead of the weights; nullopt: the weights are trained
BlockMemory block_memory(const ModelConfig& config, c10::ScalarType dtype,
                         const std::optional<AdapterOptions>& adapter);

}  // namespace xrun
