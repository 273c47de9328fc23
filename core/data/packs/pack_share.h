#pragma once
// Packs shared out over ranks so that each has about as much to compute.

#include <cstdint>
#include <span>
#include <vector>

namespace xrun {

// What a pack costs: its tokens (matrix products), or the sum of its segments' squared lengths
// (attention, where segments do not see each other).
enum class PackCost { kTokens, kTokensSquared };

// Returns the cost of a pack of segments of these lengths; a sum beyond int64 stays at its largest.
// Throws Error if a length is below 0.
int64_t pack_cost(PackCost by, std::span<const int64_t> segment_lengths);

// Returns the packs of each rank, ascending; each pack at exactly one rank. Costlier packs are
// given first, each to the rank with the least so far; ties go to the lower index and the lower
// rank. Ranks get equally many packs, or, where they do not divide, some one more than the others:
// a rank with one fewer runs an empty pack beside the others' last, which is legal. A pure function
// of its arguments, so every rank that calls it finds the same shares.
// Throws Error if ranks is below 1 or a cost below 0.
std::vector<std::vector<int64_t>> share_out(std::span<const int64_t> costs, int64_t ranks);

}  // namespace xrun
