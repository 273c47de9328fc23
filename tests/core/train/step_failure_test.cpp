// Bad losses, interrupts and batches that are stepped twice.

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include "core/train/step.h"
#include "tests/core/train/step_fixture.h"
#include "tests/error_of.h"

namespace xrun::step_failure_test {
namespace {

TEST_F(StepTest, ANonFiniteLossNamesItsRowAndChangesNothing) {
  BatchInfo info;
  info.step = 40;
  info.row_name = [](int64_t row) { return fmt::format("pairs.jsonl:{}", row + 1); };
  const auto batch = tiny_batch(tiny_pairs(5), 2, info);
  policy_->logprob(*batch);
  const std::string digest = policy_->digest();
  const Objective bad = [&](MicroBatch& p) {
    at::Tensor loss = policy_->logprob(p.chosen());
    // Pairs 3 and 4 alone.
    const at::Tensor third = p.chosen().field("pair").ge(3).to(at::kFloat);
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, loss.div(at::ones({}).sub(third)));
    return result;
  };
  try {
    train_step({{batch.get(), bad}}, adamw_.get());
    FAIL();
  } catch (const NonFiniteLoss& error) {
    EXPECT_STREQ(error.what(),
                 "pairs.jsonl:4: the loss of this pair is -inf (step 40, micro-batch "
                 "2 of 3)");
    EXPECT_EQ(error.micro(), 1);
    EXPECT_EQ(error.term(), 0);
    EXPECT_EQ(error.rows(), std::vector<int64_t>{3});
  }
  EXPECT_EQ(policy_->digest(), digest);
  EXPECT_EQ(adamw_->update_count(), 0);
  EXPECT_EQ(policy_->update_count(), 0);
  EXPECT_TRUE(adamw_->gradients().empty());
}

TEST_F(StepTest, ANonFiniteGradientNamesItsRow) {
  BatchInfo info;
  info.step = 40;
  info.row_name = [](int64_t row) { return fmt::format("pairs.jsonl:{}", row + 1); };
  const auto batch = tiny_batch(tiny_pairs(5), 2, info);
  try {
    train_step({{batch.get(), infinite_slope(policy_, 3)}}, adamw_.get());
    FAIL();
  } catch (const NonFiniteLoss& error) {
    EXPECT_STREQ(error.what(),
                 "pairs.jsonl:4: the gradient of the log-prob of this token is inf although every "
                 "loss is finite (step 40, micro-batch 2 of 3); look for a 0/0 in the objective's "
                 "gradient");
    EXPECT_EQ(error.micro(), 1);
    EXPECT_EQ(error.rows(), std::vector<int64_t>{3});
  }
  EXPECT_EQ(policy_->update_count(), 0);
}

TEST_F(StepTest, ANonFiniteGradientOfOtherOutputsUpdatesNothing) {
  const auto batch = tiny_batch(tiny_pairs(2), 2);
  const Objective bad = [&](MicroBatch& p) {
    // sqrt has an infinite slope at 0: 0 * inf is nan.
    const at::Tensor zero = p.hidden(policy_->model()).sum().mul(0).sqrt();
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, zero.expand({2}));
    return result;
  };
  try {
    train_step({{batch.get(), bad}}, adamw_.get());
    FAIL();
  } catch (const NonFiniteLoss& error) {
    EXPECT_EQ(error.micro(), -1);
    EXPECT_NE(std::string(error.what()).find("the gradient norm is"), std::string::npos);
  }
  EXPECT_EQ(policy_->update_count(), 0);
}

TEST_F(StepTest, ALossWithoutGradientIsRefused) {
  const Objective constant = [&](MicroBatch& p) {
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, policy_->logprob(p.chosen()).detach());
    return result;
  };
  EXPECT_EQ(message_of<Error>([&] {
              train_step({{tiny_batch(tiny_pairs(2), 2).get(), constant}}, adamw_.get());
            }),
            "the loss does not depend on the trained weights: it has no gradient; compute it "
            "from policy:logprob or policy:token_logprob, and detach only what is constant");
}

TEST_F(StepTest, AMetricWithoutAUnitIsNamed) {
  const Objective odd = [&](MicroBatch& p) {
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, policy_->logprob(p.chosen()));
    result.metrics.emplace_back("odd", at::ones({3}));
    return result;
  };
  const auto batch = tiny_batch(tiny_pairs(2), 2);
  EXPECT_EQ(message_of<Error>([&] {
              train_step({{batch.get(), odd}}, adamw_.get());
            }),
            fmt::format("the metric \"odd\" has shape [3], wanted a single number or [2] (one per "
                        "pair), [4] (one per sequence), [{}] (one per token), [2] (one per group)",
                        batch->row_count()));
}

TEST_F(StepTest, AnInterruptBetweenMicroBatchesLeavesTheStateUnchanged) {
  policy_->model();
  const std::string digest = policy_->digest();
  for (size_t at = 0; at < 4; ++at) {
    const auto batch = tiny_batch(tiny_pairs(3), 1);
    StepOptions options;
    size_t polls = 0;
    options.poll = [&] {
      if (polls++ == at) throw Interrupted(SIGINT);
    };
    EXPECT_EQ(signal_of([&] {
                train_step({{batch.get(), dpo_objective()}}, adamw_.get(), options);
              }),
              SIGINT);
    EXPECT_TRUE(adamw_->gradients().empty());
    EXPECT_EQ(policy_->digest(), digest);
  }
  EXPECT_EQ(policy_->update_count(), 0);
}

TEST_F(StepTest, OneForwardServesAllViewsAndEndsWithTheStep) {
  const auto batch = tiny_batch(tiny_pairs(2), 2);
  at::Tensor first, second;
  std::optional<View> kept;
  const Objective objective = [&](MicroBatch& p) {
    kept = p.chosen();
    first = p.token_logprob(policy_->model(), 1024);
    policy_->logprob(p.rejected());
    second = p.token_logprob(policy_->model(), 1024);
    return dpo_objective()(p);
  };
  train_step({{batch.get(), objective}}, adamw_.get());
  EXPECT_TRUE(first.is_same(second));
  EXPECT_TRUE(throws<Error>("this view (chosen) is closed: its micro-batch ended with the step",
                            [&] { policy_->logprob(*kept); }));
}

TEST_F(StepTest, AnObjectiveThatThrowsLeavesNoViewOpenAndNoGradient) {
  const auto batch = tiny_batch(tiny_pairs(2), 1);
  std::optional<View> kept;
  const Objective failing = [&](MicroBatch& p) {
    if (p.index() == 1) {
      kept = p.chosen();
      throw Error("dpo.lua:24: oops");
    }
    return dpo_objective()(p);
  };
  EXPECT_EQ(message_of<Error>([&] {
              train_step({{batch.get(), failing}}, adamw_.get());
            }),
            "dpo.lua:24: oops");
  EXPECT_TRUE(throws<Error>("this view (chosen) is closed", [&] { kept->length(); }));
  EXPECT_TRUE(adamw_->gradients().empty());
  EXPECT_EQ(policy_->update_count(), 0);
}

TEST_F(StepTest, ABatchMayBeSteppedTwice) {
  const auto batch = tiny_batch(tiny_pairs(4), 2);
  const double first = value(train_step({{batch.get(), dpo_objective()}}, adamw_.get()), "loss");
  EXPECT_LT(value(train_step({{batch.get(), dpo_objective()}}, adamw_.get()), "loss"), first);
}

}  // namespace
}  // namespace xrun::step_failure_test
