#pragma once
// How far two tensors are apart.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

namespace xrun {

// The largest absolute difference, in fp64; 0 of empty tensors.
inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace xrun
