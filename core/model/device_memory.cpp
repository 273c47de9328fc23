// A device's allocator caches freed blocks: free for tensors, but in use for the driver.

#include "core/model/device_memory.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "core/model/memory_limit.h"
#include "core/model/ops/allocator.h"

namespace xrun {

namespace {

// Null for a kind of device whose allocator counts nothing.
c10::DeviceAllocator* allocator_of(c10::Device device) {
  at::globalContext().lazyInitDevice(device.type());
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

c10::DeviceIndex index_of(c10::Device device) {
  return std::max<c10::DeviceIndex>(device.index(), 0);
}

const c10::CachingAllocator::Stat& sum_of(const c10::CachingAllocator::StatArray& stats) {
  return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

}  // namespace

DeviceMemory device_memory(c10::Device device) {
  if (device.is_cpu()) {
    const MemoryCount count = memory_count();
    return {count.held, count.peak, available_bytes()};
  }
  c10::DeviceAllocator* const allocator = allocator_of(device);
  if (allocator == nullptr) return {};
  const auto stats = allocator->getDeviceStats(index_of(device));
  const auto& tensors = sum_of(stats.allocated_bytes);
  DeviceMemory memory{tensors.current, tensors.peak, 0};
  if (const auto own = memory_setting()) {
    memory.available = *own - memory.held;
  } else {
    const auto [free, total] = allocator->getMemoryInfo(index_of(device));
    memory.available =
        static_cast<int64_t>(free) + sum_of(stats.reserved_bytes).current - memory.held;
  }
  memory.available = std::max<int64_t>(memory.available, 1);
  return memory;
}

void reset_device_peak(c10::Device device) {
  if (device.is_cpu()) return reset_memory_peak();
  if (c10::DeviceAllocator* const allocator = allocator_of(device)) {
    allocator->resetPeakStats(index_of(device));
  }
}

}  // namespace xrun
