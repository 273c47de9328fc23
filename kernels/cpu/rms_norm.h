#pragma once
// Root-mean-square norm of rows, forward and backward.

#include <cstdint>

namespace xrun::kernels {

// y = weight * round(x * rstd), rstd = 1 / sqrt(mean(x^2) + eps); rounding is to the type of x.
template <class T>
struct RmsNorm {
  const T* x;           // [rows, D]
  const float* weight;  // [D]
  T* y;                 // [rows, D]
  float* rstd;          // [rows] out, may be null
  int64_t rows, width;
  float eps;
};

// dx = rstd (g w - xn mean(g w xn)), dweight += sum over rows of g xn, where xn = x rstd.
template <class T>
struct RmsNormBackward {
  const T* grad;        // [rows, D]
  const T* x;           // [rows, D]
  const float* weight;  // [D]
  const float* rstd;    // [rows]
  T* dx;                // [rows, D]
  float* dweight;       // [D], added to
  int64_t rows, width;
};

}  // namespace xrun::kernels
