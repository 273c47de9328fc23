#pragma once
// Attention over a cache (cached_attention.h) as calls of the same number of rows and keys for each
// item, which library products can compute.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace xrun {

// The most fp32 elements of the keys, values and scores of one call, a bound of its memory.
inline constexpr int64_t kCachedCallElements = int64_t{1} << 26;

// The part of a sequence in a forward.
struct CachedSequence {
  int64_t tokens = 0;           // new ones: rows of q, after those of the sequences before
  int64_t length = 0;           // all tokens; the keys of the new ones are in the blocks too
  std::vector<int64_t> blocks;  // that hold its keys, by position; all but the last are full
};

struct CachedSizes {
  int64_t heads, kv_heads, head_dim, block;  // block: tokens of one
};

// B items, each the rows of a sequence or of neighbours, padded to n rows and b blocks.
struct CachedCall {
  at::Tensor blocks;      // [B, b] int64, blocks of the cache; padding repeats one
  at::Tensor start, end;  // [B] int64, the position of the first key and that after the last
  at::Tensor queries;     // [B, n] int64, rows of q; padding repeats one
  at::Tensor positions;   // [B, n] int64, their positions
  at::Tensor rows;        // [m] int64, the rows of q without padding; undefined: all, in order
  at::Tensor unpadded;    // [m] int64, their places among the B n; undefined: there is no padding
};

// The calls of a forward. Neighbours whose first blocks are the same share these: their keys are
// gathered once for all rows, and the results are merged by log-sum-exp.
struct CachedCalls {
  std::vector<CachedCall> own;     // every row once, against the keys that it does not share
  std::vector<CachedCall> shared;  // some rows, at most once
};

// Returns the calls, whose index tensors reach the device in one copy that is not waited for.
CachedCalls cached_calls(const std::vector<CachedSequence>& sequences, const CachedSizes& sizes,
                         c10::Device device);

}  // namespace xrun
