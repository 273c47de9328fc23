// The step: loss, gradients and metrics in any micro-batches, and the end of a step.

#include "core/train/step.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/flops.h"
#include "tests/core/train/step_fixture.h"

namespace xrun::step_test {
namespace {

TEST_F(StepTest, DpoStartsAtLn2WithAccuracyOneHalfAndNoReward) {
  const auto batch = tiny_batch(tiny_pairs(7), 3);
  const Metrics metrics = train_step({{batch.get(), dpo_objective()}}, adamw_.get());
  EXPECT_NEAR(value(metrics, "loss"), std::log(2.0), 1e-6);
  EXPECT_EQ(value(metrics, "accuracy"), 0.5);
  EXPECT_EQ(value(metrics, "margin"), 0.0);
  EXPECT_EQ(value(metrics, "reward_chosen"), 0.0);
  EXPECT_EQ(value(metrics, "reward_rejected"), 0.0);
  EXPECT_GT(value(metrics, "grad_norm"), 0.0);
  EXPECT_EQ(value(metrics, "lr"), 1e-2);
  EXPECT_EQ(policy_->update_count(), 1);
  EXPECT_EQ(metrics.front().first, "loss");
}

TEST_F(StepTest, CountsTheOperationsOfPolicyAndReference) {
  const auto flops = [&] {
    BatchInfo info;
    info.data_key = "data";
    const auto batch = tiny_batch(tiny_pairs(4), 4, info);
    const Metrics metrics = train_step({{batch.get(), dpo_objective()}}, adamw_.get());
    const MicroBatch& micro = *batch->micros().front();
    const ModelConfig& config = policy_->model().config();
    const double forward = pack_flops(config, micro.pack().cu_seqlens).forward() +
                           head_flops(config, micro.row_count());
    return value(metrics, "perf/flops_per_s") * value(metrics, "perf/step_s") / forward;
  };
  EXPECT_NEAR(flops(), 3, 1e-6);  // the policy's own forward answers for the reference
  EXPECT_NEAR(flops(), 4, 1e-6);  // the frozen weights compute each pair, forward alone
}

TEST_F(StepTest, TheLossFallsOnTheSamePairs) { expect_falling_loss(); }

TEST_F(StepTest, AStepOfWeightZeroUpdatesNothingAndReportsIt) {
  std::vector<TinyPair> pairs = tiny_pairs(3);
  for (TinyPair& pair : pairs) pair.weight = 0;
  AdamWOptions decaying;
  decaying.lr = 1e-2;
  decaying.weight_decay = 0.1;
  AdamW adamw({policy_}, decaying);
  const at::Tensor before = policy_->parameters()[0].master.clone();
  for (const auto& batch : {tiny_batch(pairs, 2), tiny_batch({}, 2)}) {
    const Metrics metrics = train_step({{batch.get(), dpo_objective()}}, &adamw);
    const Metrics wanted = {{"skipped", 1.0}, {"lr", 1e-2}};
    EXPECT_EQ(metrics, wanted);  // no loss is invented
  }
  EXPECT_EQ(policy_->update_count(), 0);
  EXPECT_TRUE(before.equal(policy_->parameters()[0].master));
  pairs[1].weight = 1;
  train_step({{tiny_batch(pairs, 2).get(), dpo_objective()}}, &adamw);
  EXPECT_EQ(policy_->update_count(), 1);
}

TEST_F(StepTest, MicroBatchesChangeNeitherGradientNorMetrics) {
  // A policy that left its reference, so that gradients and metrics are far from trivial.
  train_step({{tiny_batch(tiny_pairs(6, 5), 6).get(), dpo_objective()}}, adamw_.get());
  std::vector<TinyPair> pairs = tiny_pairs(8);
  pairs[2].weight = 0.25;
  pairs[5].weight = 3;
  const auto whole = tiny_batch(pairs, 8), halves = tiny_batch(pairs, 3),
             alone = tiny_batch(pairs, 1);
  const std::vector<at::Tensor> gradient = gradients(*whole, dpo_objective());
  EXPECT_LT(distance(gradient, gradients(*halves, dpo_objective())), 1e-5);
  EXPECT_LT(distance(gradient, gradients(*alone, dpo_objective())), 1e-5);
  StepOptions still;
  still.lr = 0;
  const Metrics one = train_step({{whole.get(), dpo_objective()}}, adamw_.get(), still);
  const Metrics eight = train_step({{alone.get(), dpo_objective()}}, adamw_.get(), still);
  ASSERT_EQ(one.size(), eight.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].first, eight[i].first);
    if (one[i].first.starts_with("perf/")) continue;
    EXPECT_NEAR(one[i].second, eight[i].second, 1e-5 * std::max(1.0, std::abs(one[i].second)))
        << one[i].first;
  }
}

TEST_F(StepTest, PackedEqualsOnePairAtATime) {
  const std::vector<TinyPair> pairs = tiny_pairs(9);
  const at::Tensor packed = policy_->logprob(*tiny_batch(pairs, 9));
  Batch reversed({}, tiny_packs(pairs, 4, /*reversed=*/true));
  const at::Tensor alone = policy_->logprob(*tiny_batch(pairs, 1));
  EXPECT_LT(packed.sub(alone).abs().div(alone.abs()).max().item().toDouble(), 1e-5);
  EXPECT_LT(packed.sub(policy_->logprob(reversed)).abs().div(alone.abs()).max().item().toDouble(),
            1e-5);
  EXPECT_FALSE(packed.requires_grad());
}

TEST_F(StepTest, LossesAreWeightedByTheirUnitsOverTheWholeStep) {
  std::vector<TinyPair> pairs = tiny_pairs(3);
  pairs[0].weight = 1;
  pairs[1].weight = 2;
  pairs[2].weight = 5;
  // Each pair's loss is its number: the mean is (0 + 2 + 10) / 8 however it is packed.
  const Objective numbers = [&](MicroBatch& p) {
    const View view = p.chosen();
    const at::Tensor zero = policy_->logprob(view).mul(0);
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, zero.add(view.field("pair")));
    result.metrics.emplace_back("number", view.field("pair"));
    result.metrics.emplace_back("scalar", view.field("pair").to(at::kFloat).mean());
    result.metrics.emplace_back("by_token", p.all().spread(p.all().field("pair")));
    return result;
  };
  for (size_t per_pack : {1u, 2u, 3u}) {
    const Metrics metrics =
        train_step({{tiny_batch(pairs, per_pack).get(), numbers}}, adamw_.get());
    EXPECT_DOUBLE_EQ(value(metrics, "loss"), 12.0 / 8);
    EXPECT_DOUBLE_EQ(value(metrics, "number"), 12.0 / 8);
    double tokens = 0, sum = 0;
    for (size_t i = 0; i < 3; ++i) {
      const double length =
          static_cast<double>(pairs[i].chosen.size() + pairs[i].rejected.size()) * pairs[i].weight;
      tokens += length;
      sum += static_cast<double>(i) * length;
    }
    EXPECT_NEAR(value(metrics, "by_token"), sum / tokens, 1e-12);
    if (per_pack == 1) {
      EXPECT_DOUBLE_EQ(value(metrics, "scalar"), 12.0 / 8);
    }
  }
}

TEST_F(StepTest, UnitsAreDividedByTheirOwnWeightAndAdd) {
  const std::vector<TinyPair> pairs = tiny_pairs(5);
  const Objective both = [&](MicroBatch& p) {
    const View all = p.all();
    const at::Tensor token = policy_->token_logprob(all);
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, policy_->logprob(p.chosen()).mul(0).add(2));
    result.losses.emplace_back(Unit::kToken, token.mul(0).add(0.5));
    result.losses.emplace_back(Unit::kSequence, all.sum(token).mul(0).add(10));
    return result;
  };
  EXPECT_NEAR(value(train_step({{tiny_batch(pairs, 2).get(), both}}, adamw_.get()), "loss"), 12.5,
              1e-6);
}

TEST_F(StepTest, TermsAddWithTheirWeights) {
  const auto a = tiny_batch(tiny_pairs(3), 2), b = tiny_batch(tiny_pairs(4, 1), 1);
  const auto constant = [&](double loss) -> Objective {
    return [this, loss](MicroBatch& p) {
      ObjectiveResult result;
      result.losses.emplace_back(Unit::kPair, policy_->logprob(p.chosen()).mul(0).add(loss));
      return result;
    };
  };
  const std::vector<StepTerm> terms = {{a.get(), constant(2)}, {b.get(), constant(5), 0.1}};
  EXPECT_NEAR(value(train_step(terms, adamw_.get()), "loss"), 2.5, 1e-6);
}

TEST_F(StepTest, ReportsLogprobsAndLengthsOfTheViewsThatThePolicyScored) {
  const std::vector<TinyPair> pairs = tiny_pairs(4);
  const auto batch = tiny_batch(pairs, 2);
  const at::Tensor before = policy_->logprob(*batch);
  const Metrics metrics = train_step({{batch.get(), dpo_objective()}}, adamw_.get());
  double length = 0;
  for (const TinyPair& pair : pairs) length += static_cast<double>(pair.rejected.size()) / 4;
  EXPECT_DOUBLE_EQ(value(metrics, "length_rejected"), length);
  const double chosen = before.slice(0, 0, 8, 2).mean().item().toDouble();
  EXPECT_NEAR(value(metrics, "logprob_chosen"), chosen, 1e-5 * std::abs(chosen));
  for (const auto& [name, number] : metrics) {
    EXPECT_NE(name, "logprob_all") << "what was scored before the step is not of the step";
  }
}

TEST_F(StepTest, TwoStepsFromOneStateGiveTheSameBits) {
  const auto run = [&] {
    const auto policy = Policy::open(folder_.model());
    const auto reference = policy->reference();
    AdamWOptions options;
    options.lr = 1e-2;
    AdamW adamw({policy}, options);
    std::vector<Metrics> all;
    for (int step = 0; step < 3; ++step) {
      all.push_back(train_step(
          {{tiny_batch(tiny_pairs(6, 7), 2).get(), dpo(policy, reference, 0.1)}}, &adamw));
    }
    return std::pair(all, policy->digest());
  };
  const auto [metrics, digest] = run();
  const auto [again, digest_again] = run();
  EXPECT_EQ(digest, digest_again);
  for (size_t step = 0; step < metrics.size(); ++step) {
    for (size_t i = 0; i < metrics[step].size(); ++i) {
      if (metrics[step][i].first.starts_with("perf/")) continue;
      EXPECT_EQ(metrics[step][i], again[step][i]);
    }
  }
}

TEST_F(StepTest, RandomNumbersOfAnObjectiveDependOnStepAndMicroBatch) {
  std::vector<double> seen;
  const Objective noisy = [&](MicroBatch& p) {
    const at::Tensor noise = at::randn({p.pair_count()});
    seen.push_back(noise[0].item().toDouble());
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, policy_->logprob(p.chosen()).mul(noise));
    return result;
  };
  BatchInfo info;
  info.step = 3;
  info.seed = 11;
  train_step({{tiny_batch(tiny_pairs(4), 2, info).get(), noisy}}, adamw_.get());
  at::randn({100});
  train_step({{tiny_batch(tiny_pairs(4), 2, info).get(), noisy}}, adamw_.get());
  info.step = 4;
  train_step({{tiny_batch(tiny_pairs(4), 2, info).get(), noisy}}, adamw_.get());
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_EQ(seen[1], seen[3]);
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[0], seen[4]);
}

}  // namespace
}  // namespace xrun::step_test
