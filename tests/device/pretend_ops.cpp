// The plug-in's compositions as the pretended device's form of our ops.

#include <torch/library.h>

#include "kernels/cuda/layers.h"
#include "kernels/cuda/segment_attention.h"

namespace xrun {

TORCH_LIBRARY_IMPL(xrun, PrivateUse1, m) {
  m.impl("rms_norm_forward", kernels::rms_norm_forward);
  m.impl("rms_norm_backward", kernels::rms_norm_backward);
  m.impl("rope_rotate", kernels::rope_rotate);
  m.impl("swiglu_forward", kernels::swiglu_forward);
  m.impl("swiglu_backward", kernels::swiglu_backward);
  m.impl("linear_forward", kernels::linear_forward);
  m.impl("linear_backward", kernels::linear_backward);
  m.impl("varlen_attention_forward", kernels::attention_forward);
  m.impl("varlen_attention_backward", kernels::attention_backward);
}

}  // namespace xrun
