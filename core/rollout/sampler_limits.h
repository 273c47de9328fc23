#pragma once
// Constants that decoding and the sampler's memory plan share.

#include <cstdint>

namespace xrun {

// The most rows of one product with the head, to bound the memory of its logits.
inline constexpr int64_t kHeadRows = 256;
// Decoding steps before the weights are packed. Packing costs about as much as the transposes of
// two steps and takes memory of its own, so short answers do without it.
inline constexpr int64_t kUnpackedSteps = 2;

}  // namespace xrun
