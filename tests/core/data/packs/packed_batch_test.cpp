// A packed batch points each loss row at the slot before its token, and damaged fields are refused.

#include "core/data/packs/packed_batch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/scratch_folder.h"

namespace xrun::packed_batch_test {
namespace {

PackedBatch pair_of_five_and_three() {
  PackedBatch batch;
  PackedBatch::Segment segment;
  segment.row_id = 7;
  segment.pair_id = segment.group_id = 0;
  segment.weight = 0.5f;
  segment.side = 1;
  batch.append(segment, {10, 11, 12, 13, 14}, {1, 0, 1, 0, 1});
  segment.side = -1;
  batch.append(segment, {20, 21, 22}, {0, 1, 1});
  return batch;
}

TEST(PackedBatch, LossRowsPointAtTheSlotBeforeATrainedToken) {
  const PackedBatch batch = pair_of_five_and_three();
  EXPECT_EQ(batch.rows.hidden, (std::vector<int32_t>{1, 3, 5, 6}));
  EXPECT_EQ(batch.rows.target, (std::vector<int32_t>{12, 14, 21, 22}));
  EXPECT_EQ(batch.rows.segment, (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(batch.rows.weight, (std::vector<float>(4, 0.5f)));
}

TEST(PackedBatch, TheFirstTokenOfASegmentIsNeverATarget) {
  PackedBatch batch;
  batch.append({}, {1, 2}, {1, 1});
  batch.append({}, {3, 4}, {1, 1});
  EXPECT_EQ(batch.rows.target, (std::vector<int32_t>{2, 4}));  // not 3, predicted from 2
}

TEST(PackedBatch, PositionsRestartInEachSegment) {
  const PackedBatch batch = pair_of_five_and_three();
  EXPECT_EQ(batch.position_ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2}));
  EXPECT_EQ(batch.cu_seqlens, (std::vector<int32_t>{0, 5, 8}));
}

TEST(PackedBatch, AWholeBatchIsValid) {
  const PackedBatch batch = pair_of_five_and_three();
  EXPECT_EQ(error_of([&] { batch.validate(23); }), "");
  EXPECT_EQ(batch.pair_count(), 1);
}

TEST(PackedBatch, AnEmptyBatchIsLegal) {
  EXPECT_EQ(error_of([] { PackedBatch().validate(1); }), "");
}

TEST(PackedBatch, RejectsATokenBeyondTheVocabulary) {
  EXPECT_EQ(error_of([] { pair_of_five_and_three().validate(22); }),
            "batch: tokens[7] is 22, the vocabulary has 22 ids; the tokenizer belongs to another "
            "model");
}

struct Damage {
  const char* name;
  void (*apply)(PackedBatch&);
  const char* message;  // how the error begins
};

class DamagedBatch : public testing::TestWithParam<Damage> {};

TEST_P(DamagedBatch, IsRefusedByFieldIndexAndValue) {
  PackedBatch batch = pair_of_five_and_three();
  GetParam().apply(batch);
  const std::string message = error_of([&] { batch.validate(100); });
  EXPECT_TRUE(message.starts_with(GetParam().message)) << message;
}

const Damage kDamages[] = {
    {"Border", [](PackedBatch& b) { b.cu_seqlens[1] = 8; }, "batch: cu_seqlens[2] is 8"},
    {"LastBorder", [](PackedBatch& b) { b.cu_seqlens[2] = 7; }, "batch: cu_seqlens ends with 7"},
    {"FirstBorder", [](PackedBatch& b) { b.cu_seqlens[0] = 1; }, "batch: cu_seqlens must begin"},
    {"Position", [](PackedBatch& b) { b.position_ids[6] = 6; }, "batch: position_ids[6] is 6"},
    {"Negative", [](PackedBatch& b) { b.tokens[3] = -1; }, "batch: tokens[3] is -1"},
    {"Crossing", [](PackedBatch& b) { b.rows.hidden[1] = 4; }, "batch: rows.hidden[1] is 4"},
    {"Target", [](PackedBatch& b) { b.rows.target[2] = 9; }, "batch: rows.target[2] is 9"},
    {"Segment", [](PackedBatch& b) { b.rows.segment[0] = 2; }, "batch: rows.segment[0] is 2"},
    {"Weight", [](PackedBatch& b) { b.rows.weight[3] = NAN; }, "batch: rows.weight[3] is nan"},
    {"Sign", [](PackedBatch& b) { b.weight[1] = -1; }, "batch: weight[1] is -1"},
    {"Side", [](PackedBatch& b) { b.side[1] = 1; }, "batch: side[0] is 1"},
    {"Pair", [](PackedBatch& b) { b.pair_id[1] = 4; }, "batch: side[0] is 1"},
    {"Row", [](PackedBatch& b) { b.rows.target.pop_back(); }, "batch: rows.target has 3 entries"},
    {"Ids", [](PackedBatch& b) { b.row_id.pop_back(); }, "batch: row_id has 1 entries"},
    {"Stream", [](PackedBatch& b) { b.row_streams["x"] = {1}; }, "batch: row_streams.x has 1"},
};

INSTANTIATE_TEST_SUITE_P(Every, DamagedBatch, testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace xrun::packed_batch_test
