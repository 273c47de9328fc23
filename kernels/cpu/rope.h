#pragma once
// Rotary positions, forward and backward.

#include <cstdint>

namespace xrun::kernels {

// Rotates the pairs (i, i + K/2) of every head of x [rows, heads, K] by the row's angles.
template <class T>
struct Rope {
  const T* x;
  T* y;              // may be x
  const float* cos;  // [rows, K/2]
  const float* sin;  // [rows, K/2]
  int64_t rows, heads, head_dim;
  bool inverse;  // rotate back, which is the backward
};

}  // namespace xrun::kernels
