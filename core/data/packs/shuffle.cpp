// A balanced Feistel network over the next even power of two at or above n (below 4n), walked along
// its cycle until the value falls below n (Black and Rogaway 2002, "Ciphers with arbitrary finite
// domains", method 2). Round keys are 64 bits of Philox(seed; stream, epoch, round).

#include "core/data/packs/shuffle.h"

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
  XRUN_CHECK(size < (uint64_t{1} << 62), "a shuffle of {} rows, the most is 2^62", size);
  const int bits = size <= 1 ? 1 : std::bit_width(size - 1);
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
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (mix(right ^ key) & half_mask_);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);  // the cycle through an index below size_ always comes back to one
  return value;
}

}  // namespace xrun
