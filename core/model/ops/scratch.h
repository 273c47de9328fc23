#pragma once
// Large fp32 buffers kept between steps, since a first touch of a page costs 15 times a reuse.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

// Returns n uninitialised floats on the CPU, in the smallest free buffer that fits. A buffer is
// free once no tensor uses it. If none fits, the free ones are released and a new one is made.
// Thread-safe.
at::Tensor scratch_floats(int64_t n);

// Returns the bytes of a buffer for n floats: whole huge pages.
double scratch_bytes(double n);

// Releases the free buffers, for callers that will not need them again soon.
void free_scratch();

}  // namespace xrun
