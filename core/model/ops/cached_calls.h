#pragma once
// The batched calls of an attention over a cache (cached_attention.h). All items of a call have the
// same number of rows and of keys, so that library products can compute it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace xrun {

// Bounds the memory of one call: the most fp32 elements of its keys, values and scores.
inline constexpr int64_t kCachedCallElements = int64_t{1} << 26;

// A sequence in a forward: its new tokens and its keys.
struct CachedSequence {
  int64_t tokens = 0;           // new tokens: rows of q, after those of earlier sequences
  int64_t length = 0;           // all tokens; the keys of the new ones are in the blocks already
  std::vector<int64_t> blocks;  // hold its keys, by position; all but the last are full
};

struct CachedSizes {
  int64_t heads, kv_heads, head_dim;  // H, J, K
  int64_t block;                      // tokens of a block of keys
};

// B items, padded to n rows and b blocks. An item has the rows of one sequence or of neighbours.
struct CachedCall {
  at::Tensor blocks;      // [B, b] int64, blocks of the cache; padding repeats one
  at::Tensor start, end;  // [B] int64, positions [start, end) of the item's keys
  at::Tensor queries;     // [B, n] int64, rows of q; padding repeats one
  at::Tensor positions;   // [B, n] int64, their positions
  at::Tensor rows;        // [m] int64, the rows of q without padding; undefined: all, in order
  at::Tensor unpadded;    // [m] int64, their places among the B n; undefined: there is no padding
};

// The calls of a forward. Neighbouring sequences that begin with the same blocks share them: these
// keys are gathered once for all rows, and the results are merged by log-sum-exp.
struct CachedCalls {
  std::vector<CachedCall> own;     // every row once, against the keys that it does not share
  std::vector<CachedCall> shared;  // some rows, at most once
};

// Returns the calls. Their index tensors go to the device in one copy, without waiting for it.
CachedCalls cached_calls(const std::vector<CachedSequence>& sequences, const CachedSizes& sizes,
                         c10::Device device);

}  // namespace xrun
