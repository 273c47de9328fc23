// The pretend device allocates host memory and counts it as CUDA's caching allocator counts its
// own.

#include "tests/pretend/pretend_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace xrun {

namespace {

const c10::Device kDevice(c10::DeviceType::PrivateUse1, 0);

std::mutex mutex;
c10::CachingDeviceAllocator::DeviceStats stats;
int64_t capacity = int64_t{1} << 40;
std::map<const char*, size_t> pinned;  // bytes from an address on

c10::CachingAllocator::Stat& held() { return stats.allocated_bytes[0]; }

struct Block {
  c10::DataPtr memory;
  size_t bytes;
};

void free_block(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  const std::lock_guard lock(mutex);
  held().decrease(block->bytes);
  stats.reserved_bytes[0].decrease(block->bytes);
}

struct Memory : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* const block = new Block{c10::GetCPUAllocator()->allocate(bytes), bytes};
    const std::lock_guard lock(mutex);
    held().increase(bytes);
    stats.reserved_bytes[0].increase(bytes);
    return {block->memory.get(), block, &free_block, kDevice};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const std::lock_guard lock(mutex);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {
    const std::lock_guard lock(mutex);
    held().reset_peak();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    const std::lock_guard lock(mutex);
    const int64_t left = std::max<int64_t>(capacity - stats.reserved_bytes[0].current, 0);
    return {static_cast<size_t>(left), static_cast<size_t>(capacity)};
  }
};

void free_pinned(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  const std::lock_guard lock(mutex);
  pinned.erase(static_cast<const char*>(block->memory.get()));
}

struct PinnedMemory : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* const block = new Block{c10::GetCPUAllocator()->allocate(bytes), bytes};
    const std::lock_guard lock(mutex);
    if (bytes > 0) pinned[static_cast<const char*>(block->memory.get())] = bytes;
    return {block->memory.get(), block, &free_pinned, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

// Never destroyed, since tensors may outlive any owner.
c10::DeviceAllocator& pretend_memory() {
  static auto* const memory = new Memory;
  return *memory;
}

void set_pretend_capacity(int64_t bytes) {
  const std::lock_guard lock(mutex);
  capacity = bytes;
}

c10::Allocator& pinned_memory() {
  static auto* const memory = new PinnedMemory;
  return *memory;
}

bool is_pinned_address(const void* address) {
  const std::lock_guard lock(mutex);
  const auto* const at = static_cast<const char*>(address);
  auto after = pinned.upper_bound(at);
  return after != pinned.begin() && at < std::prev(after)->first + std::prev(after)->second;
}

bool is_pinned_tensor(const at::Tensor& x) {
  return x.numel() == 0 || is_pinned_address(x.const_data_ptr());
}

}  // namespace xrun
