// A stored row packs its mask bits and narrow ids so that rows can be copied into a shard.

#include "core/data/cache/stored_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::stored_row_test {
namespace {

// Lengths around words and bytes, one after the other, so that bits begin at every position of a
// byte.
TEST(StoredRow, BitsOfRowsFollowEachOtherInAShard) {
  ShardData shard({{"offsets", ColumnType::kI64, -1}, {"mask", ColumnType::kBits, 0}});
  std::mt19937 random(7);
  std::vector<uint8_t> all;
  for (int round = 0; round < 4; ++round) {
    for (size_t length : {1, 0, 7, 8, 9, 63, 64, 65, 3, 127, 128, 129, 200, 5, 1000}) {
      EncodedRow row;
      row.streams[0].ids.assign(length, 1);
      for (size_t i = 0; i < length; ++i) row.streams[0].trained.push_back(random() % 2);
      all.insert(all.end(), row.streams[0].trained.begin(), row.streams[0].trained.end());
      const auto trained = std::count(all.end() - static_cast<int64_t>(length), all.end(), 1);
      StoredRow packed;
      packed.streams[0].bits.assign(3, ~uint64_t{0});  // of a row before it
      store_row(std::move(row), ColumnType::kU16, packed);
      EXPECT_EQ(packed.streams[0].trained, trained);
      shard.push_bits(1, packed.streams[0].bits, length);
      shard.push_offset(0, 1);
      shard.end_row();
    }
  }
  std::string bytes;
  shard.body([&](std::string_view piece) { bytes.append(piece); });
  const size_t begin = (8 * (shard.rows() + 1) + 63) / 64 * 64;
  ASSERT_EQ(shard.elements(1), all.size());
  for (size_t i = 0; i < bytes.size() * 8 - begin * 8; ++i) {
    const int bit = bytes[begin + i / 8] >> i % 8 & 1;
    ASSERT_EQ(bit, i < all.size() ? all[i] : 0) << i;
  }
}

TEST(StoredRow, IdsAreNarrowIfTheVocabularyFits) {
  EXPECT_EQ(id_type({RowKind::kChat, 65536, {}, false}), ColumnType::kU16);
  EXPECT_EQ(id_type({RowKind::kChat, 65537, {}, false}), ColumnType::kU32);
  for (const ColumnType type : {ColumnType::kU16, ColumnType::kU32}) {
    EncodedRow row;
    row.streams[0].ids = {5, 65535, 7};
    row.streams[0].trained = {0, 1, 1};
    row.streams[0].weights = {1, 0.5, 2};
    row.label = 1;
    row.notes = {"a note"};
    StoredRow packed;
    packed.streams[1].tokens = 9;
    store_row(std::move(row), type, packed);
    const std::string wide("\5\0\0\0\xff\xff\0\0\7\0\0\0", 12), narrow("\5\0\xff\xff\7\0", 6);
    const std::vector<char>& ids = packed.streams[0].ids;
    EXPECT_EQ(std::string(ids.begin(), ids.end()), type == ColumnType::kU16 ? narrow : wide);
    EXPECT_EQ(packed.streams[0].largest_id, 65535);
    EXPECT_EQ(packed.streams[0].weights, (std::vector<float>{1, 0.5, 2}));
    EXPECT_EQ(packed.streams[1].largest_id, -1);
    EXPECT_EQ(packed.tokens(), 3);
    EXPECT_EQ(packed.label, 1);
    EXPECT_EQ(packed.notes.size(), 1u);
  }
}

TEST(StoredRow, AStreamWithoutAFlagPerTokenIsRefused) {
  EncodedRow row;
  row.streams[1].ids = {1, 2};
  row.streams[1].trained = {0};
  StoredRow packed;
  EXPECT_EQ(error_of([&] { store_row(std::move(row), ColumnType::kU16, packed); }),
            "a stream has 2 tokens and 1 trained flags");
}

}  // namespace
}  // namespace xrun::stored_row_test
