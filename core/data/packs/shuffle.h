#pragma once
// Orders of the rows of a source, computed without a table: keyed bijections of [0, n).

#include <array>
#include <cstdint>
#include <variant>

namespace xrun {

// The streams of a seed: the rows of each source, and the draws in a mixture's blocks.
constexpr uint64_t shuffle_of_rows(int32_t source) { return 2 * static_cast<uint64_t>(source); }
constexpr uint64_t kShuffleOfBlocks = 1;

// The order of one epoch. A pure function of its arguments, with O(1) state and O(1) expected time
// per index. Thread-safe.
class Shuffle {
 public:
  // Throws Error unless size < 2^62. A shuffle of size 0 has no index.
  Shuffle(uint64_t size, uint64_t seed, uint64_t epoch, uint64_t stream = 0);
  // Returns the row of the index-th draw; each row once. Throws Error if index >= size.
  uint64_t operator()(uint64_t index) const;

 private:
  static constexpr int kRounds = 8;
  uint64_t size_;
  uint64_t half_mask_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

// A shuffle with local reads, for data sets larger than memory. Blocks of `block` consecutive rows
// are permuted whole; then the rows of every `window` consecutive blocks are permuted. The rows
// after the last whole block come last, permuted among themselves. So only `window` blocks are read
// at a time, but rows of one block of the file are always drawn within one window. A pure function
// of its arguments, with O(1) state and O(1) expected time per index. Thread-safe.
class BlockShuffle {
 public:
  // Throws Error unless size < 2^62 and block and window are at least 1.
  BlockShuffle(uint64_t size, uint64_t block, uint64_t window, uint64_t seed, uint64_t epoch,
               uint64_t stream = 0);
  // Returns the row of the index-th draw; each row once. Throws Error if index >= size.
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t size_;
  uint64_t block_;
  uint64_t whole_;        // rows in whole blocks
  uint64_t window_rows_;  // of a full window; the last one may be shorter
  uint64_t seed_;         // of this epoch
  Shuffle blocks_;
};

enum class RowOrderKind { kFile, kFull, kBlock };

// The order in which an epoch visits rows. kFile: as in the file; kFull: a Shuffle; kBlock: a
// BlockShuffle.
struct RowOrder {
  static constexpr int64_t kBlockRows = 256, kWindowBlocks = 512;

  RowOrderKind kind = RowOrderKind::kFull;
  int64_t block = kBlockRows;      // rows; kBlock alone
  int64_t window = kWindowBlocks;  // blocks; kBlock alone

  bool operator==(const RowOrder&) const = default;
};

// The order of one epoch: a bijection of [0, rows), different in each epoch unless it is kFile. A
// pure function of its arguments with O(1) state. Thread-safe.
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
