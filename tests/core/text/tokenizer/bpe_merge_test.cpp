// The scan and the heap apply the same merges in the same order.

#include "core/text/tokenizer/bpe_merge.h"

#include <gtest/gtest.h>

#include "core/base/philox.h"

namespace xrun::bpe_merge_test {

namespace {

std::vector<ModelToken> symbols_of(const std::vector<int32_t>& ids) {
  std::vector<ModelToken> symbols;
  for (uint32_t i = 0; i < ids.size(); ++i) symbols.push_back({ids[i], i, i + 1});
  return symbols;
}

TEST(BpeMerge, TheLeftmostOfEqualPairsMergesFirst) {
  MergeTable merges;
  merges.set(0, 0, {0, 1});
  for (const auto merge : {merge_by_scan, merge_by_heap}) {
    std::vector<ModelToken> symbols = symbols_of({0, 0, 0});
    merge(merges, symbols);
    ASSERT_EQ(symbols.size(), 2u);
    EXPECT_EQ(symbols[0].id, 1);
    EXPECT_EQ(symbols[0].end, 2u);
    EXPECT_EQ(symbols[1].id, 0);
  }
}

TEST(BpeMerge, ScanAndHeapAgreeOnRandomMergesAndLengths) {
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return philox_u64(7, kStreamShuffle, 1, at++) % n; };
  for (int round = 0; round < 300; ++round) {
    MergeTable merges;
    for (uint32_t rank = 0; rank < 40; ++rank) {
      // Later merges may use the results of earlier ones.
      merges.set(int32_t(below(6 + rank)), int32_t(below(6 + rank)), {rank, int32_t(6 + rank)});
    }
    std::vector<int32_t> ids(below(200));
    for (int32_t& id : ids) id = int32_t(below(6));
    std::vector<ModelToken> a = symbols_of(ids), b = a;
    merge_by_scan(merges, a);
    merge_by_heap(merges, b);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].id, b[i].id);
      ASSERT_EQ(a[i].begin, b[i].begin);
      ASSERT_EQ(a[i].end, b[i].end);
    }
  }
}

TEST(MergeTable, FindsEveryMergeAfterGrowth) {
  MergeTable merges;
  for (int32_t i = 0; i < 5000; ++i) merges.set(i, i * 7, {uint32_t(i), i + 1});
  merges.set(3, 21, {99, 100});  // a later merge of a pair replaces the earlier one
  EXPECT_EQ(merges.find(3, 21).rank, 99u);
  EXPECT_EQ(merges.find(4999, 4999 * 7).id, 5000);
  EXPECT_EQ(merges.find(0, 0).rank, 0u);
  EXPECT_EQ(merges.find(1, 8).rank, kNoMerge);
}

}  // namespace

}  // namespace xrun::bpe_merge_test
