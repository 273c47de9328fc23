#include "core/data/packs/row_order.h"

#include "core/base/error.h"

namespace xrun {

EpochOrder::EpochOrder(const RowOrder& order, int64_t rows, uint64_t seed, uint64_t epoch,
                       uint64_t stream)
    : rows_(rows) {
  XRUN_CHECK(rows >= 0, "a shuffle of {} rows, wanted at least 0", rows);
  const uint64_t size = static_cast<uint64_t>(rows);
  if (order.kind == RowOrder::Kind::kFull) {
    shuffle_.emplace<Shuffle>(size, seed, epoch, stream);
  } else if (order.kind == RowOrder::Kind::kBlock) {
    XRUN_CHECK(order.block >= 1, "shuffle.block is {}, wanted at least 1 row", order.block);
    XRUN_CHECK(order.window >= 1, "shuffle.window is {}, wanted at least 1 block", order.window);
    shuffle_.emplace<BlockShuffle>(size, static_cast<uint64_t>(order.block),
                                   static_cast<uint64_t>(order.window), seed, epoch, stream);
  }
}

int64_t EpochOrder::operator()(int64_t index) const {
  XRUN_CHECK(index >= 0 && index < rows_, "an order of {} rows has no index {}", rows_, index);
  const uint64_t at = static_cast<uint64_t>(index);
  if (const Shuffle* full = std::get_if<Shuffle>(&shuffle_)) {
    return static_cast<int64_t>((*full)(at));
  }
  if (const BlockShuffle* blocks = std::get_if<BlockShuffle>(&shuffle_)) {
    return static_cast<int64_t>((*blocks)(at));
  }
  return index;
}

}  // namespace xrun
