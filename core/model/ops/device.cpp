// Copies are queued on the current stream; an event marks the end of a copy to the host.

#include "core/model/ops/device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace xrun {

// Never waits for the device, so that a step stays ahead of it.
at::Tensor on_device(const at::Tensor& values, c10::Device device) {
  if (values.device().type() == device.type()) return values;
  if (!values.is_cpu()) return values.to(device);
  // A copy from pageable memory would wait for the device.
  return values.pin_memory().to(device, /*non_blocking=*/true);
}

// LibTorch puts a non-blocking copy into pinned memory.
HostCopy::HostCopy(const at::Tensor& values)
    : values_(values.to(c10::kCPU, /*non_blocking=*/!values.is_cpu())) {
  if (values.is_cpu()) return;
  const c10::Device device = values.device();
  copied_.emplace(device.type());
  copied_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

bool HostCopy::arrived() const { return !copied_ || copied_->query(); }

const at::Tensor& HostCopy::wait() const {
  if (copied_) copied_->synchronize();
  return values_;
}

}  // namespace xrun
