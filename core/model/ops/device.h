#pragma once
// Tensors of the host on the device that a model computes on, and back.

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace xrun {

// Returns the values of a tensor on `device`: the tensor itself where it lies there already. From
// the host to another device the copy is queued through pinned memory, and the host does not wait;
// from a device to the host it waits.
at::Tensor on_device(const at::Tensor& values, c10::Device device);

// Values of a device on their way to the host: the copy is queued behind what computes them, and
// the host goes on. Those of the host are there at once.
class HostCopy {
 public:
  explicit HostCopy(const at::Tensor& values);

  bool arrived() const;            // never waits
  const at::Tensor& wait() const;  // the values on the host

 private:
  at::Tensor values_;
  std::optional<c10::Event> copied_;  // nullopt: values of the host
};

}  // namespace xrun
