#pragma once
// Memory of the pretended device, counted as a GPU's allocator counts it, and the host's pinned
// memory, known by its addresses.

#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>

namespace xrun {

// Of PrivateUse1:0. Nothing is kept when it is freed.
c10::DeviceAllocator& pretend_memory();
// What the device says that it has, in bytes; 2^40 until it is set.
void set_pretend_capacity(int64_t bytes);

c10::Allocator& pinned_memory();
bool is_pinned_address(const void* address);
// Whether a copy between this tensor of the host and a device need not be waited for.
bool is_pinned_tensor(const at::Tensor& x);

}  // namespace xrun
