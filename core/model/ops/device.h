#pragma once
// Copies between the host and the device that a model computes on.

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace xrun {

// Returns the values of a tensor on `device`; the tensor itself if it is there already. A copy from
// the host is queued through pinned memory without waiting; a copy to the host waits.
at::Tensor on_device(const at::Tensor& values, c10::Device device);

// A copy of device values to the host. It is queued after their computation, and the host
// continues. Values on the host are available at once.
class HostCopy {
 public:
  explicit HostCopy(const at::Tensor& values);

  bool arrived() const;            // never waits
  const at::Tensor& wait() const;  // the values on the host

 private:
  at::Tensor values_;
  std::optional<c10::Event> copied_;  // nullopt: the values were on the host
};

}  // namespace xrun
