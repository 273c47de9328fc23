#pragma once
// The compositions of layers.h under the names of our ops.

#include <torch/library.h>

#include "kernels/cuda/layers.h"

namespace xrun::kernels {

// Registers them as the form that a device has of these ops.
inline void register_layers(torch::Library& m) {
  m.impl("rms_norm_forward", rms_norm_forward);
  m.impl("rms_norm_backward", rms_norm_backward);
  m.impl("rope_rotate", rope_rotate);
  m.impl("swiglu_forward", swiglu_forward);
  m.impl("swiglu_backward", swiglu_backward);
  m.impl("linear_forward", linear_forward);
  m.impl("linear_backward", linear_backward);
}

}  // namespace xrun::kernels
