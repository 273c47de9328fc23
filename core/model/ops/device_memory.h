#pragma once
// The memory that tensors hold and may still take, on the host and on a device.

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace xrun {

// Returns the bytes that the system can give without swapping, within the limits of the process's
// control groups (versions 1 and 2). 0: unknown.
//   root  of /proc and /sys, for tests
int64_t system_bytes(const std::filesystem::path& root = "/");

// Returns the limit for tensors in bytes, which $XRUN_MEMORY_MB sets in units of 10^6 bytes;
// nullopt if it is not set. Throws Error unless it is a whole number above 0.
std::optional<int64_t> memory_setting();

// Returns the bytes that tensors of this process may still take, at least 1; 0: unknown. They are
// system_bytes plus the free part of the heap, which is never returned to the system; if
// $XRUN_MEMORY_MB is set, its limit minus the bytes that tensors hold. Throws Error as
// memory_setting does.
int64_t available_bytes(const std::filesystem::path& root = "/");

// All numbers are bytes.
struct DeviceMemory {
  int64_t held = 0;       // by tensors, now
  int64_t peak = 0;       // the largest since the last reset_device_peak
  int64_t available = 0;  // bytes still available, at least 1; 0 if unknown
};

// Returns memory_count (ops/allocator.h) and available_bytes for the host, and the numbers of
// LibTorch's allocator for another device; $XRUN_MEMORY_MB limits the tensors of either. The first
// call starts the device; no call waits for it. Throws Error as available_bytes does.
DeviceMemory device_memory(c10::Device device);
void reset_device_peak(c10::Device device);  // to the bytes held now

}  // namespace xrun
