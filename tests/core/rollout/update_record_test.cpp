// The record of an update: paths, and distances between log-probs whose values are given.

#include "core/rollout/update_record.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/weights/init_model.h"
#include "core/rollout/rollout_log.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/adamw.h"
#include "core/train/batches/view.h"
#include "core/train/models/policy.h"
#include "core/train/step.h"
#include "tests/core/train/trained.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::update_record_test {
namespace {

class UpdateRecords : public testing::Test {
 protected:
  UpdateRecords() {
    at::set_num_threads(1);
    InitOptions options{.family = "llama", .hidden = 32, .ffn = 48, .scale = 0.2};
    options.tokenizer = source_path("tests/data/tiny_tokenizer");
    options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
    init_model(folder_ / "model", options);
    policy_ = Policy::open(folder_ / "model");
  }

  // Answers of three tokens each, two of them, whose log-probs differ from the policy's by these.
  std::shared_ptr<Rollouts> rollouts(const std::vector<double>& sampler,
                                     const std::vector<double>& old) {
    RolloutList list;
    for (int64_t i = 0; i < std::ssize(sampler) / 3; ++i) {
      auto one = std::make_shared<Rollout>();
      one->row = one->prompt = i;
      one->prompt_ids = std::make_shared<const std::vector<int32_t>>(
          std::vector<int32_t>{4, static_cast<int32_t>(7 + i), 9});
      one->ids = {11, 12, static_cast<int32_t>(13 + i)};
      one->logprobs = {0, 0, 0};
      list.push_back(std::move(one));
    }
    auto made = std::make_shared<Rollouts>(BatchInfo{.total_steps = 9, .unit = Unit::kToken},
                                           std::move(list));
    const at::Tensor now = policy_->LogprobSource::token_logprob(*made).to(at::kDouble);
    made->set_sampler_logprob(now.sub(at::tensor(sampler, at::kDouble)).to(at::kFloat));
    made->set_field("old_logprob", now.sub(at::tensor(old, at::kDouble)).to(at::kFloat),
                    Unit::kToken);
    return made;
  }

  // One update with a ratio to old_logprob, recorded.
  Metrics update(Rollouts& batch, UpdateRecord& record, AdamW* adamw = nullptr) {
    WatchedUpdate watched(batch, *policy_);
    const Objective objective = watched.watch([this](MicroBatch& micro) {
      const at::Tensor ratio =
          policy_->token_logprob(micro.all()).sub(micro.all().field("old_logprob")).exp();
      return ObjectiveResult{{{Unit::kToken, ratio.neg()}}, {}};
    });
    AdamW own({policy_}, {.lr = 1e-2});
    train_step({{&batch, objective}}, adamw == nullptr ? &own : adamw,
               {.read_gradients = adamw == nullptr ? std::function<void()>([] {}) : nullptr});
    Metrics metrics;
    watched.report(metrics, record, nullptr);
    return metrics;
  }

  ScratchFolder folder_;
  std::shared_ptr<Policy> policy_;
};

TEST_F(UpdateRecords, HoldTheDistancesOfLogProbs) {
  const std::vector<double> sampler = {0, 0.05, -0.2, 0.2, -0.01, 0}, old = {0.3, 0, 0, 0, 0, -0.1};
  UpdateRecord record;
  const Metrics metrics = update(*rollouts(sampler, old), record);
  double distance = 0, excess = 0, ratio = 0;
  for (size_t t = 0; t < 6; ++t) {
    distance += std::fabs(sampler[t]) / 6;
    excess += std::exp(std::fabs(sampler[t])) / 6;
    ratio += std::exp(old[t]) / 6;
  }
  constexpr double kRounding = 1e-6;  // of fp32 log-probs near -6
  EXPECT_NEAR(value(metrics, "rollout/logprob_diff_mean"), distance, kRounding);
  EXPECT_NEAR(value(metrics, "rollout/logprob_diff_max"), 0.2, kRounding);
  EXPECT_NEAR(value(metrics, "rollout/token_mult_prob_error"), excess, kRounding);
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/ratio_outside"), 2.0 / 6);
  EXPECT_NEAR(value(metrics, "train/ratio_mean"), ratio, kRounding);
  EXPECT_NEAR(value(metrics, "train/ratio_max"), std::exp(0.3), 2 * kRounding);
  EXPECT_EQ(value(metrics, "train/path_on_policy"), 1);
}

TEST_F(UpdateRecords, OfEqualLogProbsAreExactlyZeroAndOne) {
  const std::vector<double> same(6, 0);
  UpdateRecord record;
  const Metrics metrics = update(*rollouts(same, same), record);
  EXPECT_EQ(value(metrics, "rollout/logprob_diff_mean"), 0);
  EXPECT_EQ(value(metrics, "rollout/logprob_diff_max"), 0);
  EXPECT_EQ(value(metrics, "rollout/token_mult_prob_error"), 1);
  EXPECT_EQ(value(metrics, "rollout/ratio_outside"), 0);
  EXPECT_EQ(value(metrics, "train/ratio_mean"), 1);
  EXPECT_EQ(value(metrics, "train/ratio_max"), 1);
}

TEST_F(UpdateRecords, StayFiniteWhereAnAnswerWasImpossible) {
  std::vector<double> far(6, 0);
  far[2] = 1e4;
  UpdateRecord record;
  const Metrics metrics = update(*rollouts(far, std::vector<double>(6, 0)), record);
  EXPECT_EQ(value(metrics, "rollout/logprob_diff_max"), 20);
  EXPECT_TRUE(std::isfinite(value(metrics, "rollout/token_mult_prob_error")));
}

TEST_F(UpdateRecords, ABodyHasTheMaximumOfItsUpdatesAndTheMeanOfItsTokens) {
  BodyRollouts body;
  const std::vector<double> same(6, 0), high = {0.5, 0, 0, 0, 0, 0};
  update(*rollouts(same, same), body.updates);
  update(*rollouts(high, high), body.updates);
  const Metrics metrics = rollout_metrics(body);
  EXPECT_NEAR(value(metrics, "rollout/logprob_diff_max"), 0.5, 1e-6);
  EXPECT_NEAR(value(metrics, "rollout/logprob_diff_mean"), 0.5 / 12, 1e-6);
  EXPECT_NEAR(value(metrics, "train/ratio_max"), std::exp(0.5), 2e-6);
  EXPECT_NEAR(value(metrics, "train/ratio_mean"), (11 + std::exp(0.5)) / 12, 1e-6);
}

TEST_F(UpdateRecords, ABodyHasTheLossPathsOfItsTokensNotTheMeanOfItsUpdates) {
  AdamW adamw({policy_}, {.lr = 1e-2});
  const auto small = rollouts({0, 0, 0}, {0, 0, 0});
  const auto large = rollouts(std::vector<double>(6, 0), std::vector<double>(6, 0));
  BodyRollouts body;
  EXPECT_EQ(value(update(*large, body.updates, &adamw), "train/path_on_policy"), 1);
  EXPECT_EQ(value(update(*small, body.updates, &adamw), "train/path_clipped"), 1);
  const Metrics metrics = rollout_metrics(body);
  EXPECT_DOUBLE_EQ(value(metrics, "train/path_on_policy"), 6.0 / 9);
  EXPECT_DOUBLE_EQ(value(metrics, "train/path_clipped"), 3.0 / 9);
  EXPECT_EQ(value(metrics, "train/path_corrected"), 0);
}

TEST_F(UpdateRecords, TokensOfEarlierWeightsAreComparedWithOldLogProbsAlone) {
  AdamW adamw({policy_}, {.lr = 1e-2});
  const std::vector<double> same(6, 0);
  const auto batch = rollouts(same, same);
  UpdateRecord record;
  update(*batch, record, &adamw);
  const Metrics second = update(*batch, record, &adamw);
  EXPECT_FALSE(find_metric(second, "rollout/logprob_diff_max").has_value());
  EXPECT_NE(value(second, "train/ratio_mean"), 1);
  EXPECT_EQ(value(second, "train/path_clipped"), 1);
}

}  // namespace
}  // namespace xrun::update_record_test
