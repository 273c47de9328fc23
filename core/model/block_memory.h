#pragma once
// Bytes that one block of a model keeps for its backward, and what that backward takes for a while.

#include <cstdint>

namespace xrun {

struct MemoryShape;
struct ModelConfig;

// A model's sizes as doubles: products of a hostile file's do not wrap.
struct WideSizes {
  explicit WideSizes(const ModelConfig& config);
  double hidden, heads, kv_heads, head_dim, ffn, vocab, experts, top_k, expert_ffn;
};

struct BlockMemory {
  double kept = 0;      // from the forward to the backward
  double backward = 0;  // at the fullest moment of the backward, without gradients of weights
};

// Of the one block of a model of one layer over the tokens of a shape; T tokens, b bytes of the
// type:
//   dense    T [b (4 D + 2 H K + 2 G K + (gated ? 3 : 2) F) + 4 (H + 2)]
//   mixture  F becomes k I for gate and up alone, + T (4 E + 16 k)
// less the inputs of frozen maps, which no gradient needs; more for norms of q and k, a layer
// norm's mean, and what adapters keep.
BlockMemory block_memory(const ModelConfig& config, const MemoryShape& shape);

}  // namespace xrun
