#pragma once
// Fixed sizes of the sampler, which its memory plan reads too.

#include <cstdint>

namespace xrun {

inline constexpr int64_t kHeadRows = 256;  // rows per product with the head, to bound its logits
// Decoding steps before the weights are packed: packing costs about as much as the transposes of
// two steps, and it touches new memory, so short answers do without.
inline constexpr int64_t kUnpackedSteps = 2;

}  // namespace xrun
