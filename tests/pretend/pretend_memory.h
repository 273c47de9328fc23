#pragma once
// Memory of the pretended device, counted like a GPU's allocator, and the host's pinned memory,
// known by its addresses.

#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>

namespace xrun {

// The allocator of PrivateUse1:0. It caches no freed memory.
c10::DeviceAllocator& pretend_memory();
// Sets the memory that the device reports, in bytes; 2^40 by default.
void set_pretend_capacity(int64_t bytes);

c10::Allocator& pinned_memory();
bool is_pinned_address(const void* address);
// Returns true if a copy between this host tensor and a device need not be waited for.
bool is_pinned_tensor(const at::Tensor& x);

}  // namespace xrun
