#pragma once
// Memory of a device that tensors hold and may still take; the host counts as a device.

#include <c10/core/Device.h>

#include <cstdint>

namespace xrun {

// In bytes.
struct DeviceMemory {
  int64_t held = 0;       // by tensors, now
  int64_t peak = 0;       // the most since the last reset_device_peak
  int64_t available = 0;  // that they may still take, at least 1; 0: unknown
};

// Returns memory_count and available_bytes for the host, and the numbers of LibTorch's allocator
// for another device; $XRUN_MEMORY_MB limits what tensors may hold on either. The first call starts
// the device. Never waits for it. Throws Error as available_bytes.
DeviceMemory device_memory(c10::Device device);
void reset_device_peak(c10::Device device);  // to what is held now

}  // namespace xrun
