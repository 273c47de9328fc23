#pragma once
// Packing items into few packs (best-fit-decreasing) and distributing packs over ranks. pack_cost
// and share_out are for the planned step over several ranks; nothing but tests and pack_bench calls
// them yet.

#include <cstdint>
#include <span>
#include <vector>

namespace xrun {

// Returns packs of item indices, each with a total size <= capacity and every item in exactly one
// pack. Larger items are placed first, each into the fullest pack that still has room; ties go to
// the lower index and the earlier pack. Inside a pack indices ascend; packs ascend by their first.
// Requires 0 <= sizes[i] <= capacity; throws Error that names the first other one.
std::vector<std::vector<int64_t>> best_fit_decreasing(std::span<const int64_t> sizes,
                                                      int64_t capacity);

// The cost of a pack: its tokens (matrix products) or the sum of its segments' squared lengths
// (attention within segments).
enum class PackCost { kTokens, kTokensSquared };

// Returns the cost of a pack of segments of these lengths; sums saturate at the largest int64.
// Throws Error if a length is below 0.
int64_t pack_cost(PackCost by, std::span<const int64_t> segment_lengths);

// Returns the packs of each rank, ascending; each pack belongs to exactly one rank. Costlier packs
// are assigned first, each to the rank with the lowest cost so far; ties go to the lower index and
// the lower rank. Ranks get equally many packs, or some get one more: a rank with one fewer runs an
// empty pack beside the others' last, which is legal. A pure function, so every rank finds the same
// shares. Throws Error if ranks is below 1 or a cost below 0.
std::vector<std::vector<int64_t>> share_out(std::span<const int64_t> costs, int64_t ranks);

}  // namespace xrun
