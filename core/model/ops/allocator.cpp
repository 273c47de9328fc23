// Blocks are counted by malloc_usable_size, so a deleter needs no record of the requested size.

#include "core/model/ops/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <fmt/core.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <mutex>

#include "core/base/strings.h"

// MKL's memory functions, which a program may replace before its first call of MKL (oneMKL
// Developer Guide, "Redefining Memory Functions"). Weak, since a LibTorch without MKL lacks them.
extern "C" {
extern void* (*i_malloc)(size_t) __attribute__((weak));
extern void* (*i_calloc)(size_t, size_t) __attribute__((weak));
extern void* (*i_realloc)(void*, size_t) __attribute__((weak));
extern void (*i_free)(void*) __attribute__((weak));
}

namespace xrun {

namespace {

constexpr int64_t kLargeBlock = 1 << 20;

// Relaxed order suffices, since nothing else depends on these counters.
std::atomic<int64_t> bytes_held = 0, bytes_peak = 0, large_blocks = 0, bytes_allocated = 0;

int64_t usable_size(void* block) {
  return block == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(block));
}

// A plain function, since LibTorch may call a deleter after all our objects are gone.
void release_block(void* block) {
  bytes_held.fetch_sub(usable_size(block), std::memory_order_relaxed);
  c10::free_cpu(block);
}

void count_block(int64_t bytes) {
  if (bytes >= kLargeBlock) large_blocks.fetch_add(1, std::memory_order_relaxed);
  bytes_allocated.fetch_add(bytes, std::memory_order_relaxed);
  const int64_t now = bytes_held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t most = bytes_peak.load(std::memory_order_relaxed);
  // A failed exchange reloads `most`; another thread may have raised the peak further.
  while (now > most && !bytes_peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

constexpr char kLostMemory[] =
    "xrun: error: out of memory: LibTorch cannot go on without the memory it asked for; lower "
    "batch.max_tokens, take a smaller model, or end other programs. The files of the run are as "
    "after a kill: --resume continues from its last checkpoint\n";

[[noreturn]] void end_without_memory() {
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, kLostMemory, sizeof kLostMemory - 1);
  ::_exit(1);
}

// errno is still that of the allocation, since nothing runs between it and the first use of its
// result.
void on_segmentation_fault(int signal_number) {
  if (errno == ENOMEM) end_without_memory();
  ::signal(signal_number, SIG_DFL);  // the instruction runs again and faults
}

void* required(void* block, bool wanted) {
  if (block == nullptr && wanted) end_without_memory();
  return block;
}

void* required_malloc(size_t bytes) { return required(std::malloc(bytes), bytes > 0); }
void* required_calloc(size_t count, size_t bytes) {
  return required(std::calloc(count, bytes), count > 0 && bytes > 0);
}
void* required_realloc(void* block, size_t bytes) {
  return required(std::realloc(block, bytes), bytes > 0);
}

// Without its buffer MKL silently computes a product in another order.
void require_mkl_buffers() {
  if (&i_malloc == nullptr) return;
  i_malloc = required_malloc;
  i_calloc = required_calloc;
  i_realloc = required_realloc;
  i_free = std::free;
}

// LibTorch's own allocation. Its error, which names a line of LibTorch's source, is replaced.
void* allocate_block(size_t bytes) {
  try {
    return c10::alloc_cpu(bytes);
  } catch (const c10::Error&) {
    C10_THROW_ERROR(OutOfMemoryError,
                    fmt::format("out of memory: {} cannot be allocated; lower batch.max_tokens, "
                                "take a smaller model, or end other programs",
                                format_bytes(static_cast<double>(bytes))));
  }
}

// LibTorch's own allocation, plus the counters.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const block = allocate_block(bytes);
    count_block(usable_size(block));
    return {block, block, &release_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void tune_allocator() {
  // glibc maps blocks above a threshold one by one and unmaps them when freed, so every step would
  // fault its large tensors in again. Without maps they come from the heap, which is kept.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  // The heap grows by 64 MiB at a time, so that a step of many tensors makes few system calls.
  mallopt(M_TOP_PAD, 64 << 20);
  // One arena: a block freed by a worker thread serves the next request of any thread.
  mallopt(M_ARENA_MAX, 1);
}

void install_memory_count() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto* const allocator = new CountingAllocator;  // outlives every tensor
    c10::SetCPUAllocator(allocator, /*priority=*/100);
  });
}

void report_lost_memory() {
  ::signal(SIGSEGV, on_segmentation_fault);
  require_mkl_buffers();
}

MemoryCount memory_count() {
  return {bytes_held.load(std::memory_order_relaxed), bytes_peak.load(std::memory_order_relaxed),
          large_blocks.load(std::memory_order_relaxed),
          bytes_allocated.load(std::memory_order_relaxed)};
}

// The peak may miss a block or two of a racing allocation. It is a figure, not a limit.
void reset_memory_peak() { bytes_peak.store(bytes_held.load()); }

// Freed blocks that glibc keeps are free memory too.
int64_t free_heap_bytes() { return static_cast<int64_t>(mallinfo2().fordblks); }

}  // namespace xrun
