#include "core/model/ops/allocator.h"

#include <malloc.h>

#include <climits>

namespace xrun {

void tune_allocator() {
  // glibc maps blocks above a threshold one by one and unmaps them when freed, so that every step
  // faults its large tensors in again. Without maps they come from the heap, which is kept.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
  // One arena: a block freed by a worker thread serves the next request of any thread.
  mallopt(M_ARENA_MAX, 1);
}

}  // namespace xrun
