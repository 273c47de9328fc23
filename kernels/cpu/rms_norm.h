#pragma once
// Root-mean-square norm of rows (Zhang and Sennrich 2019): fp32 statistics; the normalised value is
// rounded to the activation type before the weight is applied, as in transformers.

#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// y = weight * round(x * rstd), rstd = 1 / sqrt(mean(x^2) + eps); rounding is to the type of x.
template <class T>
struct RmsNorm {
  const T* x;           // [rows, D]
  const float* weight;  // [D]
  T* y;                 // [rows, D]
  float* rstd;          // [rows] out, may be null
  int64_t rows;
  int64_t width;  // D
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
  int64_t rows;
  int64_t width;  // D
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

// Sums f(i, n) over a row, whole vectors first.
template <class F>
XRUN_INLINE double row_sum(int64_t width, F f) {
  VF s0 = {}, s1 = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    s0 += f(i, kLanes);
    s1 += f(i + kLanes, kLanes);
  }
  for (; i < width; i += kLanes) {
    s0 += f(i, width - i < kLanes ? static_cast<int>(width - i) : kLanes);
  }
  return static_cast<double>(sum_of(s0)) + static_cast<double>(sum_of(s1));
}

template <class T>
void compute(const RmsNorm<T>& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* x = a.x + r * a.width;
    T* y = a.y + r * a.width;
    const double squares = row_sum(a.width, [&](int64_t i, int n) {
      const VF v = load_some(x + i, n);
      return v * v;
    });
    const float mean = static_cast<float>(squares / static_cast<double>(a.width));
    const float rstd = 1.0f / __builtin_sqrtf(mean + a.eps);
    if (a.rstd != nullptr) a.rstd[r] = rstd;
    each_vector(a.width, [&](int64_t i, int n) {
      const VF normed = round_to(x, load_some(x + i, n) * rstd);
      store_some(y + i, normed * load_some(a.weight + i, n), n);
    });
  }
}

template <class T>
void compute(const RmsNormBackward<T>& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* x = a.x + r * a.width;
    const T* g = a.grad + r * a.width;
    T* dx = a.dx + r * a.width;
    const float rstd = a.rstd[r];
    const double dot = row_sum(a.width, [&](int64_t i, int n) {
      return load_some(g + i, n) * load_some(a.weight + i, n) * (load_some(x + i, n) * rstd);
    });
    const float mean = static_cast<float>(dot / static_cast<double>(a.width));
    each_vector(a.width, [&](int64_t i, int n) {
      const VF grad = load_some(g + i, n);
      const VF xn = load_some(x + i, n) * rstd;
      store_some(dx + i, (grad * load_some(a.weight + i, n) - xn * mean) * rstd, n);
      // Sums over the rows of a call are fp32. The caller gives each call few rows and adds the
      // results.
      store_some(a.dweight + i, load_some(a.dweight + i, n) + grad * xn, n);
    });
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif
