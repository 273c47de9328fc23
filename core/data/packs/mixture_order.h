#pragma once
// The sources of one block of a mixture in one of three orders: shuffled, evenly spaced, or one
// period of a round robin. A block is given by `begin`, the first slot of each source, followed by
// the block's length: source d has slots [begin[d], begin[d + 1]).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace xrun {

// Returns `begin` of a block of `rows` slots that is divided by largest remainder, ties to the
// lower index. A source of weight 0 gets none. Requires weights with a positive sum.
std::vector<int64_t> share_block(const std::vector<double>& weights, int64_t rows);

// Returns `begin` of a block with these sources.
std::vector<int64_t> first_slots(std::span<const int32_t> drawn, size_t sources);

inline int64_t slots_of(const std::vector<int64_t>& begin, size_t source) {
  return begin[source + 1] - begin[source];
}

// Return the source at each position of a block. In an interleaved block the rows of each source
// are evenly spaced, the j-th of n at (j + 1/2) / n of the block, ties to the lower index. A
// shuffled one is shuffled by (seed, number of the block).
std::vector<int32_t> interleaved_block(const std::vector<int64_t>& begin);
std::vector<int32_t> shuffled_block(const std::vector<int64_t>& begin, uint64_t seed,
                                    int64_t number);

// Returns one period of the smooth weighted round robin. For each row every source adds its weight
// to its credit; the source with the largest credit (the lower index of equal ones) is drawn and
// pays the sum of the weights. Weights are made whole numbers without a common divisor: exactly if
// a factor up to 1,000 makes them whole, else in millionths of their sum, at least 1 each.
std::vector<int32_t> round_robin_block(const std::vector<double>& weights);

}  // namespace xrun
