#include "core/text/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>

namespace xrun {

MergeTable::MergeTable(size_t expected)
    : size_(std::bit_ceil(std::max<size_t>(16, expected + expected / 2))),
      buffer_(size_ * sizeof(Slot)),
      slots_(buffer_.as<Slot>()),
      bit_buffer_(size_),
      bits_(bit_buffer_.as<uint64_t>()),
      mask_(size_ - 1),
      shift_(64 - std::countr_zero(size_)) {}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  if (count_ >= size_ / 4 * 3) grow();
  const uint64_t key = key_of(left, right);
  uint64_t at = place(key);
  while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask_;
  if (slots_[at].key == kEmpty) ++count_;
  slots_[at] = {key, merge};
  const uint64_t bit = bit_of(key);
  bits_[bit / 64] |= uint64_t{1} << (bit % 64);
}

void MergeTable::grow() {
  MergeTable larger(size_);
  for (size_t i = 0; i < size_; ++i) {
    const uint64_t key = slots_[i].key - 1;
    if (slots_[i].key == kEmpty) continue;
    larger.set(int32_t(key >> 32), int32_t(key & UINT32_MAX), slots_[i].merge);
  }
  *this = std::move(larger);
}

}  // namespace xrun
