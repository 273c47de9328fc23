#pragma once
// Rotary positions (Su et al. 2021) on half-split pairs: (a, b) -> (a c - b s, b c + a s).

#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// Rotates the pairs (i, i + K/2) of every head of x [rows, heads, K] by the row's angles.
template <class T>
struct Rope {
  const T* x;        // [rows, heads, K]
  T* y;              // [rows, heads, K] out; may be x
  const float* cos;  // [rows, K/2]
  const float* sin;  // [rows, K/2]
  int64_t rows;
  int64_t heads;
  int64_t head_dim;  // K, even
  bool inverse;      // rotate back, as in the backward
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

template <class T>
void compute(const Rope<T>& a) {
  const int64_t half = a.head_dim / 2;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* c = a.cos + r * half;
    const float* s = a.sin + r * half;
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t at = (r * a.heads + h) * a.head_dim;
      each_vector(half, [&](int64_t i, int n) {
        // Both halves are read before either is written, so y may be x.
        const VF low = load_some(a.x + at + i, n);
        const VF high = load_some(a.x + at + half + i, n);
        const VF cosine = load_some(c + i, n);
        const VF sine = a.inverse ? -load_some(s + i, n) : load_some(s + i, n);
        store_some(a.y + at + i, low * cosine - high * sine, n);
        store_some(a.y + at + half + i, high * cosine + low * sine, n);
      });
    }
  }
}

}  // namespace

}  // namespace xrun::kernels

#endif
