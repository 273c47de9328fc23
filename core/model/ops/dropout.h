#pragma once
// Dropout by counter-based masks, which are the same in a recomputed forward and on every device.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/ops/op_memory.h"

namespace xrun {

// Returns a mask with the sizes, type and device of `like`: each element is 0 with probability
// `rate`, in [0, 1), and 1 / (1 - rate) otherwise. Element i in row-major order is a pure function
// of (key, i). The op xrun::dropout_mask. Throws Error for another rate and for a `like` that is
// not floating.
at::Tensor dropout_mask(const at::Tensor& like, uint64_t key, double rate);

// Selects the random numbers of one forward.
struct DropoutKey {
  uint64_t seed = 0, step = 0, micro = 0;
};

// Returns x times a dropout mask that depends only on (key, map, index of the element).
//   map  the mask's number, unique within a forward, below 2^32
at::Tensor dropped(const at::Tensor& x, double rate, const DropoutKey& key, int64_t map);

// Declares what the backward of dropped() saves: the mask of the tensor `x`, `width` elements per
// token.
void dropped_saves(SavedTensors& saved, const std::string& x, double width);

}  // namespace xrun
