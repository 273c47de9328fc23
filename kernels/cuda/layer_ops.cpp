// The compositions of layers.h, registered as the CUDA form of our ops.

#include "kernels/cuda/layer_ops.h"

namespace xrun {

TORCH_LIBRARY_IMPL(xrun, CUDA, m) { kernels::register_layers(m); }

}  // namespace xrun
