#pragma once
// The feed-forward half of a block: down(act(gate x) * up x), or down(act(up x)), or a mixture of
// experts.

#include <ATen/core/Tensor.h>

#include "core/model/weights/hf_config.h"

namespace xrun {

struct BlockPlaces;
struct Pass;

// Returns act(x), in the type of x; kGeluTanh is Hugging Face's gelu_new.
at::Tensor activate(Activation activation, const at::Tensor& x);

// Returns the output, [T, D].
//   x  [T, D] in the compute type
at::Tensor feed_forward(const Pass& pass, const BlockPlaces& places, const at::Tensor& x);

}  // namespace xrun
