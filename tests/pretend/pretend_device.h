#pragma once
// A LibTorch device for external backends (PrivateUse1) that is host memory under another name:
// mixing devices throws, as on a GPU, and waits are counted.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

// Registers the device once; returns it.
c10::Device pretend_device();

// Operations since the program began that would have made the host wait.
struct DeviceWaits {
  int64_t reads = 0;   // of values by the host
  int64_t writes = 0;  // copies to the device that the host waited for
};
DeviceWaits device_waits();

// Returns one line for each wait since the last call, what was read or written, for a failing test.
std::string describe_waits();

}  // namespace xrun
