#pragma once
// The merges of a byte-pair model, and the loop that applies them: the best-ranked pair of
// neighbours first, the leftmost of equals, until no pair merges.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/text/tokenizer/token_model.h"
#include "core/text/tokenizer/zeroed_buffer.h"

namespace xrun {

struct Merge {
  uint32_t rank;  // lower ranks merge first; kNoMerge: the pair does not merge
  int32_t id;     // of the merged token
};
constexpr uint32_t kNoMerge = UINT32_MAX;

// A hash table with open addressing: (left id, right id) -> Merge. Filled once, then immutable and
// thread-safe.
class MergeTable {
 public:
  // Reserves room for a number of merges; the table grows if there are more.
  explicit MergeTable(size_t expected = 0);
  // Sets the merge of two ids, which must not be negative. The last merge of a repeated pair
  // counts, as in Hugging Face.
  void set(int32_t left, int32_t right, Merge merge);
  // Returns the merge of a pair; rank kNoMerge and id -1 if it does not merge.
  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    // Most pairs do not merge, and the bits fit a faster cache level than the slots do.
    const uint64_t bit = bit_of(key);
    if ((bits_[bit / 64] >> (bit % 64) & 1) == 0) return {kNoMerge, -1};
    for (uint64_t at = slot_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kEmpty) return {kNoMerge, -1};
    }
  }
  // Hashes the pairs and their merged tokens in the order of their ranks, not the ranks themselves.
  void hash(Hasher& hasher) const;
  // Prefetches the slot of a pair for a later find().
  void prefetch(int32_t left, int32_t right) const {
    __builtin_prefetch(&slots_[slot_of(key_of(left, right))]);
  }

 private:
  static constexpr uint64_t kEmpty = 0;  // key_of adds 1, so that the pair (0, 0) is another key
  struct MergeSlot {
    uint64_t key;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return (uint64_t(uint32_t(left)) << 32 | uint32_t(right)) + 1;
  }
  void grow();
  // Multiplies by 2^64 / the golden ratio, which spreads neighbours (Knuth, section 6.4).
  static uint64_t hash_of(uint64_t key) { return key * 0x9E3779B97F4A7C15ull; }
  uint64_t slot_of(uint64_t key) const { return hash_of(key) >> shift_; }
  uint64_t bit_of(uint64_t key) const { return hash_of(key) >> (shift_ - 3); }

  size_t size_;
  ZeroedBuffer buffer_;
  MergeSlot* slots_;  // in the buffer; at most three quarters full
  ZeroedBuffer bit_buffer_;
  uint64_t* bits_;  // a filter of eight bits per slot, in which each key sets one bit
  size_t count_ = 0;
  uint64_t mask_;
  int shift_;
};

// Merge the n symbols of a piece in place, all with the same result:
//   merge_by_scan  O(n^2), but faster for the few symbols of a word
//   merge_by_heap  O(n log n)
//   merge_symbols  chooses between the two by n
void merge_symbols(const MergeTable& merges, std::vector<ModelToken>& symbols);
void merge_by_scan(const MergeTable& merges, std::vector<ModelToken>& symbols);
void merge_by_heap(const MergeTable& merges, std::vector<ModelToken>& symbols);

}  // namespace xrun
