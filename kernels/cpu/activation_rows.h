#pragma once
// Activations without a gate: silu(x) = x s(x) with s the logistic, gelu(x) = x (1 + erf(x/√2)) /
// 2, and its tanh form x s(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016).
//
// The same vector code computes every element, at any position. ATen's loops compute the elements
// left over at the end of a thread's share by scalar functions that round differently.

#include "kernels/cpu/vector.h"

namespace xrun::kernels {

enum class ActivationCurve { kSilu, kGelu, kGeluTanh };

// y = curve(x) over n elements; y may be x.
template <class T>
struct ActivationRows {
  const T* x;  // [n]
  T* y;        // [n] out
  int64_t n;
  ActivationCurve curve;
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

// Returns erf with an absolute error below 3e-7, by the rational minimax form of Eigen, which
// reaches 1 in fp32 at 4.
XRUN_INLINE VF erf_of(VF x) {
  const VF most = splat(4.0f);
  VF v = x > most ? most : x;
  v = v < -most ? -most : v;
  const VF s = v * v;
  VF p = splat(-2.72614225801306e-10f);
  p = p * s + 2.77068142495902e-08f;
  p = p * s + -2.10102402082508e-06f;
  p = p * s + -5.69250639462346e-05f;
  p = p * s + -7.34990630326855e-04f;
  p = p * s + -2.95459980854025e-03f;
  p = p * s + -1.60960333262415e-02f;
  VF q = splat(-1.45660718464996e-05f);
  q = q * s + -2.13374055278905e-04f;
  q = q * s + -1.68282697438203e-03f;
  q = q * s + -7.37332916720468e-03f;
  q = q * s + -1.42647390514189e-02f;
  return v * p / q;
}

XRUN_INLINE VF activation_of(VF x, ActivationCurve curve) {
  if (curve == ActivationCurve::kGelu) return x * 0.5f * (1.0f + erf_of(x * 0.70710678118654752f));
  VF u = x;
  if (curve == ActivationCurve::kGeluTanh) {
    u = (x + x * x * x * 0.044715f) * 1.5957691216057308f;  // 2 sqrt(2 / pi)
  }
  // e^-u may be infinity: x / infinity is 0, as it should be.
  return x / (1.0f + exp_of(-u));
}

template <class T>
void compute(const ActivationRows<T>& a) {
  each_vector(a.n, [&](int64_t i, int n) {
    store_some(a.y + i, activation_of(load_some(a.x + i, n), a.curve), n);
  });
}

}  // namespace

}  // namespace xrun::kernels

#endif
