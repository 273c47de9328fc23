#pragma once
// The difference of two tensors.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

namespace xrun {

// The largest absolute difference, in fp64 on the host; 0 of empty tensors.
inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  const at::Tensor x = a.detach().cpu().to(at::kDouble), y = b.detach().cpu().to(at::kDouble);
  return (x - y).abs().max().item<double>();
}

// The same divided by the largest absolute value wanted. Shapes and types must be equal.
inline double relative_difference(const at::Tensor& got, const at::Tensor& wanted) {
  EXPECT_EQ(got.sizes(), wanted.sizes());
  EXPECT_EQ(got.scalar_type(), wanted.scalar_type());
  if (wanted.numel() == 0) return 0;
  const double size = wanted.detach().cpu().to(at::kDouble).abs().max().item<double>();
  return largest_difference(got, wanted) / (size + 1e-30);
}

}  // namespace xrun
