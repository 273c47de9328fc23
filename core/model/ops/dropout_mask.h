#pragma once
// What dropout multiplies by, on any device.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

// Returns 0 with probability `rate` in [0, 1), else 1 / (1 - rate), in the sizes, type and device
// of `like`; the op xrun::dropout_mask. Element i, in row-major order, is a pure function of (key,
// i): the same on every device. Throws Error for another rate or a `like` that is not floating.
at::Tensor dropout_mask(const at::Tensor& like, uint64_t key, double rate);

}  // namespace xrun
