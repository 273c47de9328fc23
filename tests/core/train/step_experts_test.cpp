// Steps of a mixture of experts: its load is reported, and packing changes nothing.

#include <gtest/gtest.h>

#include "core/model/weights/init_model.h"
#include "tests/core/train/step_fixture.h"

namespace xrun::step_experts_test {
namespace {

class ExpertStepTest : public StepTest {
 protected:
  void SetUp() override {
    init_model(folder_.path() / "mixture", {.family = "qwen3_moe",
                                            .hidden = 32,
                                            .experts = 4,
                                            .top_k = 2,
                                            .expert_ffn = 24,
                                            .scale = 0.2});
    open(0);
  }
  void open(double moe_aux) {
    policy_ = Policy::open(folder_.path() / "mixture", {.moe_aux = moe_aux});
    reference_ = policy_->reference();
    AdamWOptions options;
    options.lr = 1e-2;
    adamw_ = std::make_unique<AdamW>(std::vector<std::shared_ptr<Trainable>>{policy_}, options);
  }
};

}  // namespace

TEST_F(ExpertStepTest, ExpertLoadIsReported) {
  const Metrics metrics =
      train_step({{tiny_batch(tiny_pairs(7), 3).get(), dpo_objective()}}, adamw_.get());
  EXPECT_GT(value(metrics, "train/moe/aux_loss"), 1.5);  // about k where routing is near even
  EXPECT_LT(value(metrics, "train/moe/aux_loss"), 4.0);
  EXPECT_GT(value(metrics, "train/moe/load_max"), 1.0);
  EXPECT_LE(value(metrics, "train/moe/load_max"), 2.0);  // E / k: no token chooses one twice
  EXPECT_LT(value(metrics, "train/moe/load_min"), 1.0);
  EXPECT_GE(value(metrics, "train/moe/idle"), 0.0);
}

TEST_F(ExpertStepTest, MicroBatchesChangeNeitherGradientNorLoad) {
  train_step({{tiny_batch(tiny_pairs(6, 5), 6).get(), dpo_objective()}}, adamw_.get());
  const std::vector<TinyPair> pairs = tiny_pairs(8);
  const auto whole = tiny_batch(pairs, 8), parts = tiny_batch(pairs, 3);
  EXPECT_LT(distance(gradients(*whole, dpo_objective()), gradients(*parts, dpo_objective())), 1e-5);
  StepOptions still;
  still.lr = 0;
  const Metrics one = train_step({{whole.get(), dpo_objective()}}, adamw_.get(), still);
  const Metrics three = train_step({{parts.get(), dpo_objective()}}, adamw_.get(), still);
  for (const char* name : {"loss", "train/moe/aux_loss", "train/moe/load_max", "train/moe/load_min",
                           "train/moe/idle"}) {
    EXPECT_NEAR(value(one, name), value(three, name), 1e-5) << name;
  }
}

TEST_F(ExpertStepTest, TheLossFallsOnTheSamePairs) { expect_falling_loss(); }

TEST_F(ExpertStepTest, TheBalanceTermCoversTheWholeStepInAnyPacking) {
  const std::vector<TinyPair> pairs = tiny_pairs(8);
  const auto whole = tiny_batch(pairs, 8), parts = tiny_batch(pairs, 3);
  const std::vector<at::Tensor> without = gradients(*whole, dpo_objective());
  open(10.0);
  const std::vector<at::Tensor> one = gradients(*whole, dpo_objective());
  const std::vector<at::Tensor> three = gradients(*parts, dpo_objective());
  EXPECT_LT(distance(one, three), 1e-5);
  EXPECT_GT(distance(one, without), 1e-3);
}

TEST_F(ExpertStepTest, ALargeBalanceTermLevelsTheLoad) {
  open(100.0);
  const std::vector<TinyPair> pairs = tiny_pairs(8);
  const auto step = [&](int number) {
    BatchInfo info;
    info.step = number;
    return train_step({{tiny_batch(pairs, 3, info).get(), dpo_objective()}}, adamw_.get());
  };
  const Metrics first = step(0);
  Metrics last;
  for (int i = 1; i < 8; ++i) last = step(i);
  EXPECT_EQ(value(first, "perf/moe_counted"), 3);
  EXPECT_LT(value(last, "train/moe/aux_loss"), value(first, "train/moe/aux_loss"));
  EXPECT_NEAR(value(first, "loss"), std::log(2.0), 1e-6);
}

TEST_F(StepTest, ADenseModelHasNoExpertMetrics) {
  for (const auto& [name, unused] :
       train_step({{tiny_batch(tiny_pairs(3), 3).get(), dpo_objective()}}, adamw_.get())) {
    EXPECT_FALSE(name.starts_with("train/moe/")) << name;
  }
}

}  // namespace xrun::step_experts_test
