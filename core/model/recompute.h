#pragma once
// A block whose activations are recomputed in the backward (Chen et al. 2016).

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace xrun {

using TensorBlock = std::function<std::vector<at::Tensor>(const at::Tensor&)>;

// Returns block(x) and saves only x: the backward runs `block` again with gradients, adds to the
// gradients of the weights it uses, and returns dx. `block` must be a pure function of x and of
// weights that do not change before the backward, and its references must stay valid until then.
// Values and gradients have the bits of a plain call. With gradients disabled it is a plain call.
// The backward must run through Tensor::backward, not torch::autograd::grad, which would miss the
// gradients of the weights.
std::vector<at::Tensor> recomputed(const TensorBlock& block, const at::Tensor& x);

}  // namespace xrun
