// Index i of the whole blocks lies in window i / (window * block); the window's own bijection turns
// it into place p of the permuted blocks, which is row p % block of block blocks_(p / block). Both
// steps are bijections, so the whole is one.

#include "core/data/packs/block_shuffle.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace xrun {

namespace {

// The three kinds of shuffle under an epoch's own seed.
enum Part : uint64_t { kBlocks, kRows, kTail };

uint64_t whole_blocks(uint64_t size, uint64_t block, uint64_t window) {
  XRUN_CHECK(block > 0, "shuffle.block is 0, wanted at least 1 row");
  XRUN_CHECK(window > 0, "shuffle.window is 0, wanted at least 1 block");
  return size / block;
}

}  // namespace

BlockShuffle::BlockShuffle(uint64_t size, uint64_t block, uint64_t window, uint64_t seed,
                           uint64_t epoch, uint64_t stream)
    : size_(size),
      block_(block),
      whole_(whole_blocks(size, block, window) * block),
      window_rows_(std::min(window, size / block + 1) * block),  // a larger one is all of them
      seed_(philox_u64(seed, kStreamBlockShuffle, epoch, stream)),
      blocks_(size / block, seed_, 0, kBlocks) {}

uint64_t BlockShuffle::operator()(uint64_t index) const {
  XRUN_CHECK(index < size_, "a shuffle of {} rows has no index {}", size_, index);
  if (index >= whole_) {
    return whole_ + Shuffle(size_ - whole_, seed_, 0, kTail)(index - whole_);
  }
  const uint64_t window = index / window_rows_;
  const uint64_t first = window * window_rows_;
  const Shuffle rows(std::min(window_rows_, whole_ - first), seed_, window, kRows);
  const uint64_t place = first + rows(index - first);
  return blocks_(place / block_) * block_ + place % block_;
}

}  // namespace xrun
