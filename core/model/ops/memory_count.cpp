// Blocks are counted by malloc_usable_size, so that a deleter needs no record of what was asked
// for.

#include "core/model/ops/memory_count.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <atomic>
#include <mutex>

namespace xrun {

namespace {

constexpr int64_t kLarge = 1 << 20;

std::atomic<int64_t> held = 0, peak = 0, large = 0, allocated = 0;

int64_t size_of(void* block) {
  return block == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(block));
}

void release(void* block) {
  held.fetch_sub(size_of(block), std::memory_order_relaxed);
  c10::free_cpu(block);
}

void count(int64_t bytes) {
  if (bytes >= kLarge) large.fetch_add(1, std::memory_order_relaxed);
  allocated.fetch_add(bytes, std::memory_order_relaxed);
  const int64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const block = c10::alloc_cpu(bytes);
    count(size_of(block));
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void install_memory_count() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto* const allocator = new CountingAllocator;  // outlives every tensor
    c10::SetCPUAllocator(allocator, /*priority=*/100);
  });
}

MemoryCount memory_count() {
  return {held.load(std::memory_order_relaxed), peak.load(std::memory_order_relaxed),
          large.load(std::memory_order_relaxed), allocated.load(std::memory_order_relaxed)};
}

void reset_memory_peak() { peak.store(held.load()); }

int64_t free_heap_bytes() { return static_cast<int64_t>(mallinfo2().fordblks); }

}  // namespace xrun
