#pragma once
// Tensors of the host on the device that a model computes on.

#include <ATen/core/Tensor.h>

namespace xrun {

// Returns the values of a tensor on `device`: the tensor itself where it lies there already. From
// the host to another device the copy is queued through pinned memory, and the host does not wait;
// from a device to the host it waits.
at::Tensor on_device(const at::Tensor& values, c10::Device device);

}  // namespace xrun
