#pragma once
// Gated SiLU (Shazeer 2020): silu(g) = g s(g), silu'(g) = s (1 + g (1 - s)), s the logistic.

#include "kernels/cpu/vector.h"

namespace xrun::kernels {

// y = silu(gate) * up over n elements.
template <class T>
struct SwiGlu {
  const T* gate;  // [n]
  const T* up;    // [n]
  T* y;           // [n] out
  int64_t n;
};

// dgate = grad up silu'(gate), dup = grad silu(gate).
template <class T>
struct SwiGluBackward {
  const T* grad;  // [n], of y
  const T* gate;  // [n]
  const T* up;    // [n]
  T* dgate;       // [n] out
  T* dup;         // [n] out
  int64_t n;
};

}  // namespace xrun::kernels

#ifdef XRUN_VECTOR_BYTES

namespace xrun::kernels {

namespace {

template <class T>
void compute(const SwiGlu<T>& a) {
  each_vector(a.n, [&](int64_t i, int n) {
    const VF g = load_some(a.gate + i, n);
    // silu is rounded before the product, as by the two operations of transformers in bf16.
    const VF silu = round_to(a.gate, g / (1.0f + exp_of(-g)));
    store_some(a.y + i, silu * load_some(a.up + i, n), n);
  });
}

template <class T>
void compute(const SwiGluBackward<T>& a) {
  each_vector(a.n, [&](int64_t i, int n) {
    const VF g = load_some(a.gate + i, n);
    const VF grad = load_some(a.grad + i, n);
    // silu is not rounded: this is the gradient of the unrounded function.
    const VF s = 1.0f / (1.0f + exp_of(-g));
    store_some(a.dup + i, grad * (g * s), n);
    store_some(a.dgate + i, grad * load_some(a.up + i, n) * s * (1.0f + g * (1.0f - s)), n);
  });
}

}  // namespace

}  // namespace xrun::kernels

#endif
