#pragma once
// What a low-rank adapter adds to a linear map (Hu et al. 2021): scale B (A drop(x)).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/model/ops/linear.h"

namespace xrun {

// Names the random numbers of one forward: dropout masks are a function of these and of place.
struct DropoutKey {
  uint64_t seed = 0, step = 0, micro = 0;
};

// Returns scale (drop(x) a^T) b^T, [T, out] in the type of x.
//   x  [T, in];  a  [rank, in], b  [out, rank] in the type of x
at::Tensor low_rank(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                    GemmType gemm);

// Returns x with elements set to 0 with probability `rate`, the others divided by 1 - rate. What
// is kept is a pure function of (key, place, index of the element): the same in a second call, and
// on another device.
//   place  of the map in its model, below 2^32, so that no two masks of a forward are alike
at::Tensor dropped(const at::Tensor& x, double rate, const DropoutKey& key, int64_t place);

}  // namespace xrun
