#pragma once
// A weighted mixture of sources: which source gives the i-th row of a stream, and which of its
// rows.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xrun {

// Throws Error that names the source (from 0) unless its weight is finite and not negative.
void require_weight(size_t source, double weight);

// Draws come in blocks; each block holds a fixed number of draws of every source, in an order that
// (seed, block) decides. A pure function of the index with O(1) state in its length. Thread-safe.
class Mixture {
 public:
  struct Draw {
    int32_t source = 0;
    int64_t draw = 0;  // the draw-th row that this source gives, from 0, without end
  };
  static constexpr int64_t kBlock = 2048;

  // A source of weight 0 is never drawn. Within a block source d has floor(w_d * block) draws, the
  // rest goes to the heaviest. Without shuffle a block holds its sources one after the other.
  // Throws Error that names the index of a source whose weight is not finite, negative, or too
  // small to be drawn once a block; and if no weight is above 0.
  Mixture(const std::vector<double>& weights, uint64_t seed, bool shuffle, int64_t block = kBlock);

  Draw operator()(int64_t index) const;  // requires index >= 0
  // Returns the length of the shortest stream that holds the source's draws 0 to draws - 1.
  // Throws Error if the source is never drawn.
  int64_t length_for(int32_t source, int64_t draws) const;

 private:
  int64_t slot(int64_t block, int64_t place) const;  // place in the block's order, unshuffled

  std::vector<int64_t>
      begin_;  // first slot of each source in an unshuffled block; block at the end
  int64_t block_;
  uint64_t seed_;
  bool shuffle_;
};

}  // namespace xrun
