#pragma once
// Bytes that tensors hold on the CPU, counted by the allocator, for the memory plan and the tests.

#include <cstdint>

namespace xrun {

struct MemoryCount {
  int64_t held = 0;       // now
  int64_t peak = 0;       // the most since the last reset_memory_peak
  int64_t large = 0;      // allocations of 1 MiB and more so far
  int64_t allocated = 0;  // bytes of all allocations so far
};

// Puts a counter in front of ATen's CPU allocator; called once, before any tensor is made: what was
// allocated earlier is not counted. Idempotent. What libraries allocate for themselves (oneDNN,
// MKL) is not seen.
void install_memory_count();

// All zero before install_memory_count. Any thread.
MemoryCount memory_count();
void reset_memory_peak();  // to what is held now

// Bytes of the heap that nothing uses: the system counts them as taken, the next tensors lie there.
int64_t free_heap_bytes();

}  // namespace xrun
