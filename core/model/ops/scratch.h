#pragma once
// Large fp32 buffers that live on between steps, because a first touch costs 15 times a reuse.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

// Returns n uninitialised floats on the CPU. The buffer is taken from those that no tensor uses
// any more, smallest that fits first; it is free again when the last tensor on it dies. A request
// that no free buffer fits frees the smaller free ones. Thread-safe.
at::Tensor scratch_floats(int64_t n);

// What the buffers of so many bytes take: whole pages of this size.
constexpr int64_t kScratchPage = 2 << 20;

// Frees the buffers that no tensor uses: whoever will not need them again soon.
void free_scratch();

}  // namespace xrun
