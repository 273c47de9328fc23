#pragma once
// A shuffle that keeps reads close together: blocks of rows change places, then rows do inside a
// window of blocks.

#include <cstdint>

#include "core/data/packs/shuffle.h"

namespace xrun {

// The order of one epoch of `size` rows. Blocks of `block` consecutive rows are permuted whole;
// every `window` of them, as they then stand, are permuted row by row; the rows behind the last
// whole block come last, permuted among themselves. So `window` blocks are open at a time, and a
// row's neighbours in the file come within one window: a stated loss of randomness. A pure function
// of its arguments with O(1) state and O(1) expected time an index. Thread-safe.
class BlockShuffle {
 public:
  // Requires size < 2^62. Throws Error unless block and window are at least 1.
  BlockShuffle(uint64_t size, uint64_t block, uint64_t window, uint64_t seed, uint64_t epoch,
               uint64_t stream = 0);
  // Returns the place of the index-th draw; each place once. Throws Error if index >= size.
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t size_;
  uint64_t block_;
  uint64_t whole_;        // rows in whole blocks
  uint64_t window_rows_;  // of a full window; the last one may be shorter
  uint64_t seed_;         // of this epoch
  Shuffle blocks_;
};

}  // namespace xrun
