#pragma once
// What memory of a device tensors hold and may still take; the host is a device as others are.

#include <c10/core/Device.h>

#include <cstdint>

namespace xrun {

// In bytes.
struct DeviceMemory {
  int64_t held = 0;       // by tensors, now
  int64_t peak = 0;       // the most since the last reset_device_peak
  int64_t available = 0;  // that they may still take, at least 1; 0: nobody can tell
};

// Of the host what memory_count and available_bytes say, of another device what LibTorch's
// allocator of it says; $XRUN_MEMORY_MB stands for all that tensors may hold on either. The first
// call starts the device. Never waits for it. Throws Error as available_bytes does.
DeviceMemory device_memory(c10::Device device);
void reset_device_peak(c10::Device device);  // to what is held now

}  // namespace xrun
