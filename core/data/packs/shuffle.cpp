// A balanced Feistel network over the next even power of two at or above n (at most 4n), walked
// along its cycle until the value falls below n (Black and Rogaway 2002, "Ciphers with arbitrary
// finite domains", method 2). Round keys are 64 bits of Philox(seed; stream, epoch, round).

#include "core/data/packs/shuffle.h"

#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace xrun {

namespace {

// The finaliser of SplitMix64: every input bit reaches every output bit.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

}  // namespace

Shuffle::Shuffle(uint64_t size, uint64_t seed, uint64_t epoch, uint64_t stream) : size_(size) {
  XRUN_CHECK(size < (uint64_t{1} << 62), "a shuffle of {} rows, the maximum is 2^62 - 1", size);
  const int bits = size <= 1 ? 1 : std::bit_width(size - 1);
  // Both halves of the network have the same width, so the power of two is even.
  half_bits_ = (bits + 1) / 2;
  half_mask_ = (uint64_t{1} << half_bits_) - 1;
  for (uint64_t round = 0; round < kRounds; ++round) {
    keys_[round] = philox_u64(seed, kStreamShuffle, epoch, (stream << 8) | round);
  }
}

uint64_t Shuffle::operator()(uint64_t index) const {
  XRUN_CHECK(index < size_, "a shuffle of {} rows has no index {}", size_, index);
  uint64_t value = index;
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & half_mask_;
    // A round is invertible whatever mix does, so the network is a bijection.
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (mix(right ^ key) & half_mask_);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
    // The network's domain has at most 4 size values, so at most 4 walks are expected.
  } while (value >= size_);  // the cycle of an index below size_ returns to one
  return value;
}

// BlockShuffle: index i of the whole blocks is in window i / (window * block). The bijection of
// that window turns it into position p of the permuted blocks, which is row p % block of block
// blocks_(p / block). Both steps are bijections, so their composition is one.

namespace {

// The three shuffles under an epoch's own seed.
enum BlockStep : uint64_t { kBlocks, kRows, kTail };

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
  // Rows after the last whole block stay at the end, shuffled among themselves.
  if (index >= whole_) {
    return whole_ + Shuffle(size_ - whole_, seed_, 0, kTail)(index - whole_);
  }
  const uint64_t window = index / window_rows_;
  const uint64_t first = window * window_rows_;
  // The last window may be smaller.
  const Shuffle rows(std::min(window_rows_, whole_ - first), seed_, window, kRows);
  const uint64_t at = first + rows(index - first);
  return blocks_(at / block_) * block_ + at % block_;
}

EpochOrder::EpochOrder(const RowOrder& order, int64_t rows, uint64_t seed, uint64_t epoch,
                       uint64_t stream)
    : rows_(rows) {
  XRUN_CHECK(rows >= 0, "a shuffle of {} rows, wanted at least 0", rows);
  const uint64_t size = static_cast<uint64_t>(rows);
  if (order.kind == RowOrderKind::kFull) {
    shuffle_.emplace<Shuffle>(size, seed, epoch, stream);
  } else if (order.kind == RowOrderKind::kBlock) {
    XRUN_CHECK(order.block >= 1, "shuffle.block is {}, wanted at least 1 row", order.block);
    XRUN_CHECK(order.window >= 1, "shuffle.window is {}, wanted at least 1 block", order.window);
    shuffle_.emplace<BlockShuffle>(size, static_cast<uint64_t>(order.block),
                                   static_cast<uint64_t>(order.window), seed, epoch, stream);
  }
}

int64_t EpochOrder::operator()(int64_t index) const {
  XRUN_CHECK(index >= 0 && index < rows_, "an order of {} rows has no index {}", rows_, index);
  const uint64_t at = static_cast<uint64_t>(index);
  if (const Shuffle* full = std::get_if<Shuffle>(&shuffle_)) {
    return static_cast<int64_t>((*full)(at));
  }
  if (const BlockShuffle* blocks = std::get_if<BlockShuffle>(&shuffle_)) {
    return static_cast<int64_t>((*blocks)(at));
  }
  return index;  // RowOrderKind::kFile
}

}  // namespace xrun
