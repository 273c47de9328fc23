// The plug-in's compositions as the pretended device's form of our ops.

#include "kernels/cuda/layer_ops.h"
#include "kernels/cuda/segment_attention.h"

namespace xrun {

TORCH_LIBRARY_IMPL(xrun, PrivateUse1, m) {
  kernels::register_layers(m);
  m.impl("varlen_attention_forward", kernels::attention_forward);
  m.impl("varlen_attention_backward", kernels::attention_backward);
}

}  // namespace xrun
