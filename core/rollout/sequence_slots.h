#pragma once
// The sampler's cache slots: of sequences in progress, and of finished ones whose keys are held for
// sequences that continue them.

#include <cstdint>
#include <list>
#include <vector>

#include "core/model/kv_cache.h"

namespace xrun {

// Not thread-safe.
class SequenceSlots {
 public:
  struct HeldSequence {
    std::vector<int32_t> ids;  // the tokens of the slot
    int64_t slot;
    uint64_t ticket;  // the request whose answer it was
    int64_t sample;   // of that request
  };
  using Held = std::list<HeldSequence>::iterator;

  // Refers to the config.
  SequenceSlots(const ModelConfig& config, at::ScalarType compute, c10::Device device,
                int64_t cache_mb)
      : config_(config), cache_(config, compute, 0, device), limit_(cache_mb << 20) {}

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }

  // Returns an empty slot (KvCache::open).
  int64_t open(int64_t capacity, int64_t shared = 0);
  void close(int64_t slot);

  // Holds a sequence; gives up the rest of its slot's capacity. After an exception the slot is
  // still the caller's.
  void hold(HeldSequence sequence);
  // Returns the longest held sequence that `tokens` begin with and that leaves at least one of them
  // to compute, or none(). Skips sequences whose RoPE frequencies differ from those of `tokens`.
  Held find(const std::vector<int32_t>& tokens);
  Held none() { return held_.end(); }
  // Returns the slot of a held sequence, now in use. Throws Error if the sequence has more than
  // `capacity` tokens; it is then still held.
  int64_t take(Held held, int64_t capacity);
  // Drops a held sequence; ignored if it is not held.
  void release(uint64_t ticket, int64_t sample);
  // Drops all held sequences; returns their number.
  int64_t release_held();

  // Returns true if `bytes` more fit under the limit. To make room it drops held sequences, the
  // oldest first, but not `wanted`.
  bool make_room(int64_t bytes, Held wanted);
  int64_t evicted() const { return evicted_; }  // by make_room

 private:
  Held drop(Held held);

  const ModelConfig& config_;
  KvCache cache_;
  int64_t limit_;  // bytes
  std::vector<int64_t> free_;
  int64_t slots_ = 0;
  std::list<HeldSequence> held_;  // the oldest first
  int64_t evicted_ = 0;
};

}  // namespace xrun
