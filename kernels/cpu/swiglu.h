#pragma once
// The gated SiLU, forward and backward.

#include <cstdint>

namespace xrun::kernels {

// y = silu(gate) * up over n elements.
template <class T>
struct SwiGlu {
  const T* gate;
  const T* up;
  T* y;
  int64_t n;
};
template <class T>
struct SwiGluBackward {
  const T* grad;
  const T* gate;
  const T* up;
  T* dgate;
  T* dup;
  int64_t n;
};

}  // namespace xrun::kernels
