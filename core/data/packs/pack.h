#pragma once
// Packing items into few packs by best-fit-decreasing.

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

}  // namespace xrun
