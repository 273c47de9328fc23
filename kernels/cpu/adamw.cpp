// Both loops are bound by memory if they are compiled for each vector width with the vectoriser on
// (CMakeLists.txt), which makes the square root and the division fast enough. Multiply-adds are not
// fused, so that every width, and the scalar rest of a range, rounds in the same way.

#include "kernels/cpu/adamw.h"

#include <cmath>

// The loader picks the widest version that the processor runs.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define XRUN_WIDTHS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define XRUN_WIDTHS
#endif

namespace xrun::kernels {

XRUN_WIDTHS void adamw_update(float* __restrict p, const float* __restrict g, float* __restrict m,
                              float* __restrict v, int64_t n, const AdamWFactors& factors) {
  const AdamWFactors f = factors;
  for (int64_t i = 0; i < n; ++i) {
    const float grad = g[i] * f.clip;
    // torch's lerp form: m + (1 - beta1)(g - m), not beta1 m + (1 - beta1) g.
    const float mean = m[i] + f.beta1_rest * (grad - m[i]);
    const float square = v[i] * f.beta2 + f.beta2_rest * grad * grad;
    m[i] = mean;
    v[i] = square;
    // Decoupled decay: it shrinks the weight, not the gradient (Loshchilov and Hutter 2019).
    p[i] = p[i] * f.decay - f.step * mean / (std::sqrt(square) / f.root + f.eps);
  }
}

XRUN_WIDTHS double sum_of_squares(const float* x, int64_t n) {
  // There are 16 sums at every vector width, added in their order, so that all versions of this
  // function give the same bits.
  constexpr int64_t kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) {
      const double value = x[i + k];
      lanes[k] += value * value;
    }
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace xrun::kernels
