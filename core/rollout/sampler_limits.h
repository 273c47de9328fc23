#pragma once
// Fixed sizes of the sampler, which its memory plan reads too.

#include <cstdint>

namespace xrun {

inline constexpr int64_t kHeadRows = 256;  // of one product with the head, to bound its logits
// Decoding steps before the weights are packed: packing costs about as much as the transposes of
// two steps, and memory that is touched for the first time, so short answers do without.
inline constexpr int64_t kUnpackedSteps = 2;

}  // namespace xrun
