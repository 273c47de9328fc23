#pragma once
// A device of LibTorch's kind for backends of others (PrivateUse1) that is host memory behind
// another name: whatever mixes devices throws, as on a GPU, and waits are counted.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

// Registers the device once; returns it.
c10::Device pretend_device();

// What would have made the host wait, since the program began.
struct DeviceWaits {
  int64_t reads = 0;   // of values by the host
  int64_t writes = 0;  // copies to the device that the host waited for
};
DeviceWaits device_waits();

// One line for each wait since the last call: what was read or written, for a failing test.
std::string describe_waits();

}  // namespace xrun
