// The piece cache never confuses two pieces and bypasses long ones.

#include "core/text/tokenizer/piece_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace xrun::piece_cache_test {
namespace {

// Cuts each piece into one token, whose id is the number of pieces cut before.
struct Cutter {
  std::vector<std::string> cut;

  std::vector<int32_t> ids_of(PieceCache& cache, const std::vector<std::string>& pieces) {
    std::string text;
    std::vector<ByteRange> ranges;
    for (const std::string& piece : pieces) {
      ranges.push_back({uint32_t(text.size()), uint32_t(text.size() + piece.size())});
      text += piece;
    }
    std::vector<ModelToken> tokens;
    cache.tokenize(text, ranges, tokens,
                   [this](std::string_view piece, std::vector<ModelToken>& out) {
                     out.push_back({int32_t(cut.size()), 0, uint32_t(piece.size())});
                     cut.emplace_back(piece);
                   });
    std::vector<int32_t> ids;
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(tokens[i].begin, ranges[i].begin);
      EXPECT_EQ(tokens[i].end, ranges[i].end);
      ids.push_back(tokens[i].id);
    }
    return ids;
  }
};

TEST(PieceCache, SeparatesPiecesThatDifferInOneByte) {
  PieceCache& cache = PieceCache::of(PieceCache::next_serial());
  Cutter cutter;
  for (size_t size = 1; size <= PieceCache::kMaxBytes + 3; ++size) {
    std::vector<std::string> pieces = {std::string(size, 'a')};
    for (size_t at = 0; at < size; ++at) {
      pieces.push_back(pieces[0]);
      pieces.back()[at] = 'b';
    }
    const std::vector<int32_t> ids = cutter.ids_of(cache, pieces);
    ASSERT_EQ(ids.size(), pieces.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(cutter.cut[size_t(ids[i])], pieces[i]) << "size " << size;
    }
  }
}

TEST(PieceCache, CutsAShortPieceOnceAndALongOneEachTime) {
  PieceCache& cache = PieceCache::of(PieceCache::next_serial());
  Cutter cutter;
  const std::string longest(PieceCache::kMaxBytes, 'x'), longer = longest + "x";
  EXPECT_EQ(cutter.ids_of(cache, {longest, longer, "y", longest, longer, "y"}),
            (std::vector<int32_t>{0, 1, 2, 0, 3, 2}));
}

TEST(PieceCache, PiecesBeyondItsCapacityGetTheirOwnTokens) {
  PieceCache& cache = PieceCache::of(PieceCache::next_serial());
  Cutter cutter;
  std::vector<std::string> pieces;
  for (int i = 0; i < 300'000; ++i) pieces.push_back(std::to_string(i % 150'000));
  const std::vector<int32_t> ids = cutter.ids_of(cache, pieces);
  ASSERT_EQ(ids.size(), pieces.size());
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(cutter.cut[size_t(ids[i])], pieces[i]);
}

}  // namespace
}  // namespace xrun::piece_cache_test
