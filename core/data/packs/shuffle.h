#pragma once
// A shuffle without a table: a keyed bijection of [0, n), evaluated one index at a time.

#include <array>
#include <cstdint>

namespace xrun {

// The streams of one seed's shuffles: the rows of a source, the draws in a mixture's blocks.
constexpr uint64_t shuffle_of_rows(int32_t source) { return 2 * static_cast<uint64_t>(source); }
constexpr uint64_t kShuffleOfBlocks = 1;

// The order of one epoch. A pure function of (size, seed, epoch), with O(1) state and O(1) expected
// time an index. Thread-safe.
class Shuffle {
 public:
  // Requires size < 2^62; a size of 0 has no index.
  Shuffle(uint64_t size, uint64_t seed, uint64_t epoch, uint64_t stream = 0);
  // Returns the place of the index-th draw; each place once. Throws Error if index >= size.
  uint64_t operator()(uint64_t index) const;

 private:
  static constexpr int kRounds = 8;
  uint64_t size_;
  uint64_t half_mask_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace xrun
