#pragma once
// Packs items into few packs by best-fit-decreasing.

#include <cstdint>
#include <span>
#include <vector>

namespace xrun {

// Returns packs of item indices, each of a total size <= capacity, with every item in exactly one
// pack. Larger items are placed first, each into the fullest pack that still has room; ties go to
// the lower index and the earlier pack. Indices ascend within a pack, and packs ascend by their
// first index. Throws Error that names the first item whose size is not in [0, capacity].
std::vector<std::vector<int64_t>> best_fit_decreasing(std::span<const int64_t> sizes,
                                                      int64_t capacity);

}  // namespace xrun
