#pragma once
// The CPU allocator: how freed memory is kept, and how many bytes tensors hold.

#include <cstdint>

namespace xrun {

// Makes malloc keep large freed blocks for reuse instead of returning them to the system, since a
// first touch of a page costs 15 times a reuse. Called once at the start of a process that
// computes. The steps of a 135M model then fault no page twice, which saves 105,000 faults and 4 %
// of each.
void tune_allocator();

struct MemoryCount {
  int64_t held = 0;       // now
  int64_t peak = 0;       // the maximum since the last reset_memory_peak
  int64_t large = 0;      // allocations of 1 MiB and more so far
  int64_t allocated = 0;  // bytes of all allocations so far
};

// Puts a counter in front of ATen's CPU allocator. Idempotent. Called before any tensor is made:
// earlier allocations are not counted. The internal allocations of libraries (oneDNN, MKL) are not
// counted either. A tensor that finds no memory is then a c10::OutOfMemoryError "out of memory:
// ...".
void install_memory_count();

// From now on a library that does not get the memory it asked for ends the process with status 1
// and one line on standard error. oneDNN's primitives do not check, and the segmentation fault
// would say nothing; MKL would go on without its buffer, in another order of sums. Other
// segmentation faults stay as they are. Files are as after a kill. Called before the first product.
void report_lost_memory();

// All zero before install_memory_count. Any thread.
MemoryCount memory_count();
void reset_memory_peak();  // to the bytes held now

// Returns the bytes of the heap that are free: taken for the system, yet available to tensors.
int64_t free_heap_bytes();

}  // namespace xrun
