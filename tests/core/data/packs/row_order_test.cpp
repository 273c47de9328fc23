#include <gtest/gtest.h>

#include "core/data/packs/shuffle.h"
#include "tests/core/data/rows/scratch_folder.h"

namespace xrun::row_order_test {
namespace {

TEST(EpochOrder, IsFileOrderOrTheChosenShuffle) {
  const EpochOrder file({.kind = RowOrder::Kind::kFile}, 100, 1, 2, 3);
  const EpochOrder full({}, 100, 1, 2, 3);
  const EpochOrder blocks({RowOrder::Kind::kBlock, 8, 2}, 100, 1, 2, 3);
  for (int64_t i = 0; i < 100; ++i) {
    const uint64_t at = static_cast<uint64_t>(i);
    ASSERT_EQ(file(i), i);
    ASSERT_EQ(full(i), static_cast<int64_t>(Shuffle(100, 1, 2, 3)(at)));
    ASSERT_EQ(blocks(i), static_cast<int64_t>(BlockShuffle(100, 8, 2, 1, 2, 3)(at)));
  }
}

TEST(EpochOrder, RefusesAnEmptyBlockOrWindowAndAnIndexOutOfRange) {
  const auto order = [](int64_t block, int64_t window, int64_t index) {
    return error_of([&] { EpochOrder({RowOrder::Kind::kBlock, block, window}, 10, 0, 0)(index); });
  };
  EXPECT_EQ(order(0, 1, 0), "shuffle.block is 0, wanted at least 1 row");
  EXPECT_EQ(order(1, -1, 0), "shuffle.window is -1, wanted at least 1 block");
  EXPECT_EQ(order(1, 1, -1), "an order of 10 rows has no index -1");
  EXPECT_EQ(order(1, 1, 10), "an order of 10 rows has no index 10");
}

}  // namespace
}  // namespace xrun::row_order_test
