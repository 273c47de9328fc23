// An evaluation is the weighted mean over the set and leaves random numbers alone.

#include "core/train/evaluate.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/train/adamw.h"
#include "core/train/batches/batch.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "tests/core/train/step_fixture.h"
#include "tests/error_of.h"

namespace xrun::evaluate_test {
namespace {

// Hands out the pairs in batches of `per_batch`, each in packs of `per_pack`.
BatchStream stream(const std::vector<TinyPair>& pairs, size_t per_batch, size_t per_pack) {
  auto done = std::make_shared<size_t>(0);
  return [=]() -> std::shared_ptr<Batch> {
    if (*done >= pairs.size()) return nullptr;
    const size_t end = std::min(pairs.size(), *done + per_batch);
    const std::vector<TinyPair> some(pairs.begin() + static_cast<long>(*done),
                                     pairs.begin() + static_cast<long>(end));
    *done = end;
    return tiny_batch(some, per_pack);
  };
}

class EvaluateTest : public testing::Test {
 protected:
  void SetUp() override {
    policy_ = Policy::open(folder_.model());
    reference_ = policy_->reference();
  }
  TinyFolder folder_;
  std::shared_ptr<Policy> policy_;
  std::shared_ptr<Reference> reference_;
};

TEST_F(EvaluateTest, BeforeTrainingItIsLn2AndOneHalf) {
  const Metrics metrics = evaluate(stream(tiny_pairs(7), 3, 2), dpo(policy_, reference_, 0.1));
  EXPECT_NEAR(value(metrics, "loss"), std::log(2.0), 1e-6);
  EXPECT_EQ(value(metrics, "accuracy"), 0.5);
  EXPECT_EQ(value(metrics, "reward_rejected"), 0.0);
  EXPECT_EQ(policy_->update_count(), 0);
}

TEST_F(EvaluateTest, EveryPairCountsOnceInAnyBatches) {
  AdamWOptions options;
  options.lr = 1e-2;
  AdamW adamw({policy_}, options);
  train_step({{tiny_batch(tiny_pairs(6, 3), 6).get(), dpo(policy_, reference_, 0.1)}}, &adamw);
  std::vector<TinyPair> pairs = tiny_pairs(10);
  pairs[9].weight = 4;  // the short last batch of 3 + 3 + 3 + 1 is the heavy one
  const Metrics whole = evaluate(stream(pairs, 10, 10), dpo(policy_, reference_, 0.1));
  const Metrics parts = evaluate(stream(pairs, 3, 2), dpo(policy_, reference_, 0.1));
  ASSERT_EQ(whole.size(), parts.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].first, parts[i].first);
    EXPECT_NEAR(whole[i].second, parts[i].second, 1e-5 * std::max(1.0, std::abs(whole[i].second)))
        << whole[i].first;
  }
  EXPECT_NE(value(whole, "loss"), 0.0);
}

TEST_F(EvaluateTest, UsesTheWeightsOfTheRows) {
  std::vector<TinyPair> pairs = tiny_pairs(3);
  pairs[2].weight = 2;
  const Objective numbers = [&](MicroBatch& p) {
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, p.chosen().field("pair").to(at::kFloat));
    return result;
  };
  EXPECT_DOUBLE_EQ(value(evaluate(stream(pairs, 3, 1), numbers), "loss"), 5.0 / 4);
}

TEST_F(EvaluateTest, AnEmptySetGivesNoMetrics) {
  const Objective objective = dpo(policy_, reference_, 0.1);
  EXPECT_TRUE(evaluate([] { return nullptr; }, objective).empty());
  std::vector<TinyPair> pairs = tiny_pairs(3);
  for (TinyPair& pair : pairs) pair.weight = 0;
  EXPECT_TRUE(evaluate(stream(pairs, 3, 2), objective).empty());
  pairs[1].weight = 0.5;
  EXPECT_NEAR(value(evaluate(stream(pairs, 3, 2), objective), "loss"), std::log(2.0), 1e-6);
}

TEST_F(EvaluateTest, AnObjectiveDrawsTheSameNumbersEachTimeAndRestoresTheGenerator) {
  const Objective draws = [&](MicroBatch& p) {
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, at::rand({p.pair_count()}));
    return result;
  };
  const auto loss = [&](const EvaluateOptions& options) {
    return value(evaluate(stream(tiny_pairs(4), 4, 1), draws, options), "loss");
  };
  EvaluateOptions second;
  second.number = 1;
  at::manual_seed(3);
  const double once = loss({}), other = loss(second);
  const double after = at::rand({1}).item().toDouble();
  at::manual_seed(3);
  EXPECT_EQ(at::rand({1}).item().toDouble(), after);
  EXPECT_EQ(loss({}), once);
  EXPECT_NE(other, once);
}

TEST_F(EvaluateTest, RecordsNoGradient) {
  bool graph = false;
  const Objective watch = [&](MicroBatch& p) {
    ObjectiveResult result = dpo(policy_, reference_, 0.1)(p);
    graph = graph || result.losses[0].second.requires_grad();
    return result;
  };
  evaluate(stream(tiny_pairs(3), 3, 3), watch);
  EXPECT_FALSE(graph);
}

TEST_F(EvaluateTest, ANonFiniteLossNamesItsRow) {
  const Objective bad = [&](MicroBatch& p) {
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, p.chosen().field("pair").to(at::kFloat).log());
    return result;
  };
  EXPECT_TRUE(throws<NonFiniteLoss>("row 0: the loss of this pair is -inf ",
                                    [&] { evaluate(stream(tiny_pairs(3), 3, 3), bad); }));
}

}  // namespace
}  // namespace xrun::evaluate_test
