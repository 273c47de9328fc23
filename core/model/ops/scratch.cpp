// A buffer is free when the pool holds the only reference to its storage.

#include "core/model/ops/scratch.h"

#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <cmath>
#include <mutex>
#include <vector>

namespace xrun {

namespace {

constexpr int64_t kHugePage = 2 << 20;  // bytes

struct ScratchPool {
  std::mutex mutex;
  std::vector<at::Tensor> buffers;
};

ScratchPool& scratch_pool() {
  static ScratchPool* const pool = new ScratchPool;  // outlives every tensor of every thread
  return *pool;
}

// One reference is the pool's own; a view of a buffer holds another.
bool is_free(const at::Tensor& buffer) { return buffer.storage().use_count() == 1; }

at::Tensor make_buffer(int64_t n) {
  const int64_t floats_a_page = kHugePage / 4;
  // Whole huge pages, as scratch_bytes plans.
  const int64_t rounded = (n + floats_a_page - 1) / floats_a_page * floats_a_page;
  at::Tensor buffer = at::empty({rounded}, at::kFloat);
  // Huge pages where the system grants them; a refusal changes nothing.
  const auto begin = reinterpret_cast<uintptr_t>(buffer.mutable_data_ptr());
  const uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (begin + static_cast<uintptr_t>(rounded) * 4) / kHugePage * kHugePage;
  if (end > first) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  return buffer;
}

}  // namespace

at::Tensor scratch_floats(int64_t n) {
  ScratchPool& p = scratch_pool();
  const std::lock_guard lock(p.mutex);
  at::Tensor* best = nullptr;
  for (at::Tensor& buffer : p.buffers) {
    if (!is_free(buffer) || buffer.numel() < n) continue;
    // The smallest buffer that is large enough.
    if (best == nullptr || buffer.numel() < best->numel()) best = &buffer;
  }
  if (best == nullptr) {
    // No free buffer fits. They are released, or they would take memory beside the larger new one.
    std::erase_if(p.buffers, is_free);
    p.buffers.push_back(make_buffer(n));
    best = &p.buffers.back();
  }
  return best->narrow(0, 0, n);
}

double scratch_bytes(double n) { return std::ceil(4 * n / kHugePage) * kHugePage; }

void free_scratch() {
  ScratchPool& p = scratch_pool();
  const std::lock_guard lock(p.mutex);
  std::erase_if(p.buffers, is_free);
}

}  // namespace xrun
