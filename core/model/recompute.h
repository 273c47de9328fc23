#pragma once
// A block of a model whose activations are computed again in the backward (Chen et al. 2016).

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace xrun {

using TensorBlock = std::function<std::vector<at::Tensor>(const at::Tensor&)>;

// Returns block(x). Keeps x alone: the backward runs `block` once more with gradients, adds to the
// gradients of every weight that it uses, and passes on dx. `block` must be a pure function of x
// and of weights that do not change before the backward, and what it refers to must live until
// then; values and gradients have the bits of a plain call. Without gradients it is a plain call.
// The backward must run through Tensor::backward, not torch::autograd::grad, which would miss the
// weights.
std::vector<at::Tensor> recomputed(const TensorBlock& block, const at::Tensor& x);

}  // namespace xrun
