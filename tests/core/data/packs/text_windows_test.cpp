// Windows of a text train every token but a document's first once, and no document sees another.

#include "core/data/packs/text_windows.h"

#include <map>
#include <set>

#include "core/data/packs/packed_batch.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::text_windows_test {
namespace {

class Windows : public PairFixture {
 protected:
  // Documents of the given lengths, their ids counting on: a token's id is its position in the
  // stream.
  DataSet documents(const std::vector<int64_t>& lengths) {
    std::string rows;
    int64_t next = 0;
    for (const int64_t length : lengths) {
      rows += "{\"input_ids\":[";
      for (int64_t i = 0; i < length; ++i) rows += (i == 0 ? "" : ",") + std::to_string(next++);
      rows += "]}\n";
    }
    DataOptions opened = options(rows, "tokens.jsonl");
    opened.kind = RowKind::kTokens;
    opened.shard_bytes = 200;  // several segments
    return DataSet::open(opened, tokenizer(), nullptr);
  }
};

TEST_F(Windows, EveryTokenButADocumentsFirstIsATargetOnce) {
  const std::vector<int64_t> lengths = {9, 2, 31, 3, 3, 17, 2, 5};
  std::set<int32_t> firsts;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    firsts.insert(static_cast<int32_t>(begin));
    begin += length;
  }
  const DataSet set = documents(lengths);
  for (const int64_t window : {2, 3, 8, 16, 71, 72, 73, 500}) {
    const DataSet cut = set.in_windows(window);
    std::map<int32_t, int> targets;
    std::vector<int64_t> all;
    for (int64_t i = 0; i < cut.size(); ++i) all.push_back(cut.unit(i));
    for (const PackedBatch& pack : cut.pack(all, 500)) {
      for (const int32_t target : pack.rows.target) ++targets[target];
    }
    for (int32_t id = 0; id < static_cast<int32_t>(begin); ++id) {
      EXPECT_EQ(targets[id], firsts.count(id) == 0 ? 1 : 0) << "window " << window << " id " << id;
    }
  }
}

TEST_F(Windows, AWindowHoldsPiecesOfDocumentsThatDoNotSeeEachOther) {
  const DataSet cut = documents({5, 4, 9}).in_windows(8);
  EXPECT_EQ(cut.size(), 3);
  const std::vector<PackedBatch> packs = cut.pack({0, 1}, 8);
  ASSERT_EQ(packs.size(), 2u);
  EXPECT_EQ(packs[0].tokens, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(packs[0].cu_seqlens, (std::vector<int32_t>{0, 5, 8}));
  EXPECT_EQ(packs[0].position_ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2}));
  EXPECT_EQ(packs[0].row_id, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(packs[1].tokens, (std::vector<int32_t>{7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(packs[1].row_id, (std::vector<int64_t>{1, 2}));
}

TEST_F(Windows, ASplitKeepsWindowsApart) {
  const auto [train, valid] = documents({10, 10, 10, 10}).split(0.5);
  const DataSet first = train.in_windows(8), second = valid.in_windows(8);
  EXPECT_EQ(first.size(), 3);
  for (const PackedBatch& pack : first.pack({0, 1, 2}, 8)) {
    for (const int32_t id : pack.tokens) EXPECT_LT(id, 20);
  }
  for (const PackedBatch& pack : second.pack({0, 1, 2}, 8)) {
    for (const int32_t id : pack.tokens) EXPECT_GE(id, 20);
  }
}

TEST_F(Windows, AreRefusedForOtherKindsAndPromptSplits) {
  const DataSet set = documents({9, 9});
  EXPECT_NE(error_of([&] { set.in_windows(1); }).find("wanted at least 2"), std::string::npos);
  EXPECT_NE(
      error_of([&] { set.split(0.5, SplitBy::kPrompt).first.in_windows(4); }).find("by = \"row\""),
      std::string::npos);
  EXPECT_NE(error_of([&] { set.in_windows(4).split(0.5); }).find("split its rows first"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { open(numbered_pairs(3)).in_windows(4); }),
            "batch.tokens cuts windows of text and token rows; preference rows are whole: write "
            "batch = { pairs = 8 }");
}

TEST_F(Windows, AStepOfWindowsIsAPureFunctionOfItsNumber) {
  const DataSet cut = documents({40, 50, 60}).in_windows(10);
  const StepPlan plan{4, 2, {}, 3};
  std::multiset<int64_t> seen;
  for (int64_t step = cut.steps_total(plan) - 1; step >= 0; --step) {
    for (const int64_t unit : cut.step_units(plan, step)) seen.insert(unit);
  }
  EXPECT_EQ(std::ssize(seen), 2 * cut.size());
  for (int64_t i = 0; i < cut.size(); ++i) EXPECT_EQ(seen.count(i), 2u);
}

TEST_F(Windows, PiecesWithoutATrainedTokenAreDropped) {
  // Only the last token of the second document is trained; the third has weight 0.
  DataOptions opened = options(R"({"input_ids":[1,2,3,4],"w":1}
{"input_ids":[5,6,7,8,9,10],"labels":[-100,-100,-100,-100,-100,10],"w":1}
{"input_ids":[11,12,13,14],"w":0}
)",
                               "masked.jsonl");
  opened.kind = RowKind::kTokens;
  opened.sources[0].fields = {{"weight", "w"}};
  const DataSet set = DataSet::open(opened, tokenizer(), nullptr);
  EXPECT_EQ(set.ledger().sources[0].zero_weight, 1);
  EXPECT_EQ(set.ledger().sources[0].trained_tokens, 3 + 1);
  const DataSet cut = set.in_windows(4);  // 1 2 3 4 | 4 5 6 7 | 7 8 9 10 | 10 11 12 13 | 13 14
  ASSERT_EQ(cut.size(), 5);
  EXPECT_EQ(cut.pack({0}, 8)[0].tokens, (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_TRUE(cut.pack({1}, 8).empty());
  EXPECT_EQ(cut.pack({2}, 8)[0].rows.target, std::vector<int32_t>{10});
  EXPECT_TRUE(cut.pack({3, 4}, 8).empty());
}

TEST_F(Windows, TokenWeightsScaleTheLoss) {
  DataOptions opened = options(R"({"input_ids":[5,6,7,8],"weights":[1,0.5,0,2]})"
                               "\n",
                               "weighted.jsonl");
  opened.kind = RowKind::kTokens;
  const DataSet set = DataSet::open(opened, tokenizer(), nullptr);
  EXPECT_EQ(set.pack({0}, 10)[0].rows.weight, (std::vector<float>{0.5, 2}));
}

}  // namespace
}  // namespace xrun::text_windows_test
