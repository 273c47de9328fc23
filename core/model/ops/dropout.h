#pragma once
// Dropout by counter-based masks: the same mask in a second forward and on every device.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/ops/op_memory.h"

namespace xrun {

// Returns 0 with probability `rate` in [0, 1), else 1 / (1 - rate), with the sizes, type and device
// of `like`; the op xrun::dropout_mask. Element i, in row-major order, is a pure function of (key,
// i). Throws Error for another rate or a `like` that is not floating.
at::Tensor dropout_mask(const at::Tensor& like, uint64_t key, double rate);

// Names the random numbers of one forward.
struct DropoutKey {
  uint64_t seed = 0, step = 0, micro = 0;
};

// Returns x times a dropout mask, which is a pure function of (key, map, index of the element).
//   map  below 2^32, a different one for each mask of a forward
at::Tensor dropped(const at::Tensor& x, double rate, const DropoutKey& key, int64_t map);

// Its backward saves the mask of the tensor `x`, `width` elements per token.
void dropped_saves(SavedTensors& saved, const std::string& x, double width);

}  // namespace xrun
