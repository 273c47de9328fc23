// The compositions of layers.h, registered as the CUDA form of our ops.

#include <torch/library.h>

#include "kernels/cuda/layers.h"

namespace xrun {

TORCH_LIBRARY_IMPL(xrun, CUDA, m) {
  m.impl("rms_norm_forward", kernels::rms_norm_forward);
  m.impl("rms_norm_backward", kernels::rms_norm_backward);
  m.impl("rope_rotate", kernels::rope_rotate);
  m.impl("swiglu_forward", kernels::swiglu_forward);
  m.impl("swiglu_backward", kernels::swiglu_backward);
  m.impl("linear_forward", kernels::linear_forward);
  m.impl("linear_backward", kernels::linear_backward);
}

}  // namespace xrun
