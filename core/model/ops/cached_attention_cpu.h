#pragma once
// Attention of new tokens to the cached keys of their sequences on the CPU, where each block of a
// cache is a tensor of its own. For other devices see cached_attention.h.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/ops/cached_calls.h"

namespace xrun {

// One layer of a cache, in blocks of kernels/cpu/tree_attention.h: 64 tokens, with heads padded to
// `width`.
struct CpuBlocks {
  // fp32 or bf16 [layers, 2, J, 64 width]: keys [width, 64], values [64, width]. A sequence's
  // `blocks` are indices of this list.
  const std::vector<at::Tensor>& blocks;
  int64_t layer;
  int64_t kv_heads, head_dim;
};

// Writes the new tokens' keys and values, k and v [T, J, K], to the blocks of their sequences. They
// are contiguous and have the blocks' type.
void append_to_blocks(const CpuBlocks& cache, const std::vector<CachedSequence>& sequences,
                      const at::Tensor& k, const at::Tensor& v);

// Returns softmax(scale q k^T) v over the tokens of a row's sequence up to itself, [T, H, K], with
// the bits that the row has in a pack. Sequences that share blocks are computed together.
//   q       [T, H, K] contiguous, of the blocks' type
//   window  a token sees the last `window` positions; 0: all
at::Tensor cached_attention_cpu(const at::Tensor& q, const CpuBlocks& cache,
                                const std::vector<CachedSequence>& sequences, double scale,
                                int64_t window);

}  // namespace xrun
