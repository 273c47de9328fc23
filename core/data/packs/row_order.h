#pragma once
// In which order an epoch visits the rows of a source.

#include <cstdint>
#include <variant>

#include "core/data/packs/block_shuffle.h"
#include "core/data/packs/shuffle.h"

namespace xrun {

// kFile: as they stand; kFull: a Shuffle; kBlock: a BlockShuffle. A plain value.
struct RowOrder {
  enum class Kind { kFile, kFull, kBlock };
  static constexpr int64_t kBlockRows = 256, kWindowBlocks = 512;

  Kind kind = Kind::kFull;
  int64_t block = kBlockRows;      // rows; kBlock alone
  int64_t window = kWindowBlocks;  // blocks; kBlock alone

  bool operator==(const RowOrder&) const = default;
};

// One epoch's order: a bijection of [0, rows), each epoch another one unless it is kFile. A pure
// function of its arguments with O(1) state. Thread-safe.
class EpochOrder {
 public:
  // Throws Error if rows, block or window is out of range.
  EpochOrder(const RowOrder& order, int64_t rows, uint64_t seed, uint64_t epoch,
             uint64_t stream = 0);
  int64_t size() const { return rows_; }
  // Returns the row of the index-th draw. Throws Error unless 0 <= index < rows.
  int64_t operator()(int64_t index) const;

 private:
  int64_t rows_;
  std::variant<std::monostate, Shuffle, BlockShuffle> shuffle_;
};

}  // namespace xrun
