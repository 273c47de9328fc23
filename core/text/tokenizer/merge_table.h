#pragma once
// The merges of a byte-pair model: which two tokens become which, and in what order.

#include <cstddef>
#include <cstdint>

#include "core/text/tokenizer/zeroed_buffer.h"

namespace xrun {

struct Merge {
  uint32_t rank;  // lower goes first; kNoMerge: these two do not merge
  int32_t id;     // what they become
};
constexpr uint32_t kNoMerge = UINT32_MAX;

// (left id, right id) -> Merge, in open addressing. Filled once, then immutable and thread-safe.
class MergeTable {
 public:
  // Makes room for a number of merges; the table grows beyond it.
  explicit MergeTable(size_t expected = 0);
  // Sets a merge; a pair that was set before takes the new one, as in Hugging Face.
  void set(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    // Most pairs do not merge, and the bits stay in a nearer cache than the slots.
    const uint64_t bit = bit_of(key);
    if ((bits_[bit / 64] >> (bit % 64) & 1) == 0) return {kNoMerge, -1};
    for (uint64_t at = place(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kEmpty) return {kNoMerge, -1};
    }
  }
  void prefetch(int32_t left, int32_t right) const {
    __builtin_prefetch(&slots_[place(key_of(left, right))]);
  }

 private:
  static constexpr uint64_t kEmpty = 0;
  struct Slot {
    uint64_t key;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return (uint64_t(uint32_t(left)) << 32 | uint32_t(right)) + 1;
  }
  void grow();
  static uint64_t hash_of(uint64_t key) { return key * 0x9E3779B97F4A7C15ull; }
  uint64_t place(uint64_t key) const { return hash_of(key) >> shift_; }
  uint64_t bit_of(uint64_t key) const { return hash_of(key) >> (shift_ - 3); }

  size_t size_;
  ZeroedBuffer buffer_;
  Slot* slots_;  // in the buffer; at most three quarters full
  ZeroedBuffer bit_buffer_;
  uint64_t* bits_;  // in the buffer: eight for a slot, of which those of the keys are set
  size_t count_ = 0;
  uint64_t mask_;
  int shift_;
};

}  // namespace xrun
