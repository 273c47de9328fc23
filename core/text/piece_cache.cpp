#include "core/text/piece_cache.h"

#include <atomic>

namespace xrun {

uint64_t PieceCache::next_serial() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

PieceCache& PieceCache::of(uint64_t serial) {
  struct Owned {
    uint64_t serial = 0;  // 0 is no model's
    std::unique_ptr<PieceCache> cache;
  };
  thread_local std::array<Owned, 4> caches;
  thread_local size_t oldest = 0;
  for (Owned& owned : caches) {
    if (owned.serial == serial) return *owned.cache;
  }
  Owned& owned = caches[oldest];
  oldest = (oldest + 1) % caches.size();
  owned.cache = std::make_unique<PieceCache>();
  owned.serial = serial;
  return *owned.cache;
}

}  // namespace xrun
