// Stand-in log-probs are a function of model and row, not of the pack.

#include "core/train/models/logprob_stand_in.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "core/base/error.h"
#include "core/train/batches/batch.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "core/train/models/scorer.h"
#include "tests/core/train/step_fixture.h"
#include "tests/error_of.h"

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

class ReplacedModel : public StepTest {
 protected:
  static std::shared_ptr<LogprobSource> stand_in() {
    return std::make_shared<ModelStandIn>(
        std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(1)), "policy", [] { return false; },
        /*vocab=*/999);
  }
};

TEST_F(ReplacedModel, EveryAnswerComesFromTheReplacementAndNoWeightsLoad) {
  const auto policy = Policy::open(folder_.model());
  const auto reference = policy->reference();
  const auto scorer = std::make_shared<Scorer>(policy);
  const auto batch = tiny_batch(tiny_pairs(3), 3);
  const View view = batch->micros()[0]->chosen();
  const auto wanted = stand_in();
  EXPECT_TRUE(policy->needs_weights());
  for (LogprobSource* source :
       std::initializer_list<LogprobSource*>{policy.get(), reference.get()}) {
    source->set_replacement(stand_in());
    EXPECT_TRUE(source->token_logprob(view).equal(wanted->token_logprob(view)));
    EXPECT_TRUE(source->logprob(*batch).equal(wanted->logprob(*batch)));
    EXPECT_TRUE(source->head(view, {.entropy = true})
                    .entropy.equal(wanted->head(view, {.entropy = true}).entropy));
    EXPECT_TRUE(source->logits(view).equal(wanted->logits(view)));
    EXPECT_EQ(source->logits(view).size(1), 999);
    EXPECT_TRUE(throws<Error>("this needs the model's weights", [&] { source->model(); }));
  }
  EXPECT_GT(scorer->score(view).abs().min().item<float>(), 0);  // its own weight gives 0 at first
  EXPECT_FALSE(policy->needs_weights());
  EXPECT_FALSE(policy->loaded());
  policy->set_replacement(nullptr);
  EXPECT_TRUE(policy->needs_weights());
  EXPECT_EQ(scorer->score(view).abs().max().item<float>(), 0);
  EXPECT_TRUE(policy->loaded());
}

}  // namespace
}  // namespace xrun::logprob_stand_in_test
