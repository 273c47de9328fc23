// Stand-in log-probs are a function of model and row, not of the pack.

#include "core/train/logprob_stand_in.h"

#include <gtest/gtest.h>

#include "core/train/batch.h"

namespace xrun::logprob_stand_in_test {
namespace {

std::unique_ptr<Batch> batch_of(int64_t tokens) {
  PackedBatch pack;
  const std::vector<int32_t> ids(static_cast<size_t>(tokens), 7);
  pack.append({.row_id = 1, .segment_id = 0}, ids, std::vector<uint8_t>(ids.size(), 1));
  BatchInfo info;
  info.unit = Unit::kToken;
  return std::make_unique<Batch>(std::move(info), std::vector<PackedBatch>{std::move(pack)});
}

TEST(LogprobStandIn, IsKeyedByTheLiveMicroBatchNotItsAddress) {
  LogprobStandIn stand_in(LogprobStandIn::seeded(1));
  for (int64_t tokens = 3; tokens < 40; ++tokens) {
    const auto batch = batch_of(tokens);
    MicroBatch& micro = *batch->micros().front();
    EXPECT_EQ(stand_in.token_logprob(micro.all(), "policy", false).numel(), tokens - 1);
    EXPECT_EQ(stand_in.token_logprob(micro.all(), "policy", true).numel(), tokens - 1);
  }
}

TEST(LogprobStandIn, GivesOneLeafUntilItForgets) {
  LogprobStandIn stand_in(LogprobStandIn::seeded(1));
  const auto batch = batch_of(9);
  MicroBatch& micro = *batch->micros().front();
  stand_in.token_logprob(micro.all(), "policy", true);
  stand_in.token_logprob(micro.all(), "policy", true);
  EXPECT_EQ(stand_in.leaves().size(), 1u);
  EXPECT_EQ(stand_in.leaves_of(micro).size(), 1u);
  const auto other = batch_of(9);
  EXPECT_TRUE(stand_in.leaves_of(*other->micros().front()).empty());
  stand_in.clear();
  EXPECT_TRUE(stand_in.leaves().empty());
}

}  // namespace
}  // namespace xrun::logprob_stand_in_test
