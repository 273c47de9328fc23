#pragma once
// The storage type of bf16 tensors.

#include <cstdint>

namespace xrun::kernels {

using Bf16 = uint16_t;  // the bits: a float32 without its lower half

}  // namespace xrun::kernels
