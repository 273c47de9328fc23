#include "core/model/device.h"

namespace xrun {

at::Tensor on_device(const at::Tensor& values, c10::Device device) {
  if (values.device().type() == device.type()) return values;
  if (!values.is_cpu()) return values.to(device);
  return values.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace xrun
