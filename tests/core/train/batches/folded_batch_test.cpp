// Folded micro-batches give the losses and gradients of the separate sequences.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_sigmoid.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/model.h"
#include "core/model/ops/head_block.h"
#include "core/model/weights/init_model.h"
#include "core/train/adamw.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/models/policy.h"
#include "core/train/models/scorer.h"
#include "core/train/step.h"
#include "tests/core/train/step_fixture.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/gradient_check.h"
#include "tests/tensor_difference.h"

namespace xrun::folded_batch_test {

namespace {

class FoldedBatch : public StepTest {
 protected:
  std::shared_ptr<Batch> batch(FoldMode mode) {
    return tiny_batch(shared_prefix_pairs(6), 3, fold_info(mode));
  }
  // Goes on with another model or other options.
  void open(const PolicyOptions& options, std::filesystem::path dir = {}) {
    policy_ = Policy::open(dir.empty() ? folder_.model() : dir, options);
    reference_ = policy_->reference();
    adamw_ = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{policy_},
                                     AdamWOptions{.lr = 1e-2});
  }
  void expect_same_bits_of_logprobs() {
    const auto whole = batch(FoldMode::kNever), folded = batch(FoldMode::kAlways);
    EXPECT_NE(folded->micros()[0]->computed(policy_->model()).fold, nullptr);
    EXPECT_TRUE(policy_->token_logprob(*folded).equal(policy_->token_logprob(*whole)));
  }
  double gradient_distance(const Objective& objective) {
    return distance(gradients(*batch(FoldMode::kAlways), objective),
                    gradients(*batch(FoldMode::kNever), objective));
  }
};

}  // namespace

TEST_F(FoldedBatch, ComputesFewerTokensAndKeepsTheLogicalPack) {
  const auto whole = batch(FoldMode::kNever), folded = batch(FoldMode::kAlways);
  Model& model = policy_->model();
  for (size_t i = 0; i < whole->micros().size(); ++i) {
    MicroBatch &a = *whole->micros()[i], &b = *folded->micros()[i];
    EXPECT_LT(b.computed(model).token_count(), a.computed(model).token_count());
    EXPECT_EQ(a.pack().tokens, b.pack().tokens);
    EXPECT_EQ(a.token_count(), b.token_count());
  }
}

TEST_F(FoldedBatch, LogprobsMatchTheSeparateSequences) {
  const auto whole = batch(FoldMode::kNever), folded = batch(FoldMode::kAlways);
  const at::Tensor want = policy_->token_logprob(*whole), got = policy_->token_logprob(*folded);
  EXPECT_TRUE(got.equal(want)) << got.sub(want).abs().max().item<double>();
}

TEST_F(FoldedBatch, GradientsMatchTheSeparateSequences) {
  EXPECT_LT(gradient_distance(dpo_objective()), 1e-5);
}

TEST_F(FoldedBatch, ASequenceLossOverSharedTrainedTokensCountsEverySequence) {
  const Objective nll = [&](MicroBatch& micro) {
    return ObjectiveResult{{{Unit::kToken, policy_->token_logprob(micro.all()).neg()}}, {}};
  };
  // Duplicates share every token.
  std::vector<TinyPair> pairs = shared_prefix_pairs(6);
  for (TinyPair& pair : pairs) pair.rejected = pair.chosen;
  const auto want = gradients(*tiny_batch(pairs, 3, fold_info(FoldMode::kNever)), nll);
  const auto got = gradients(*tiny_batch(pairs, 3, fold_info(FoldMode::kAlways)), nll);
  EXPECT_LT(distance(got, want), 1e-5);
}

TEST_F(FoldedBatch, AScorerReadsTheLastTokenOfEverySequence) {
  const auto scorer = std::make_shared<Scorer>(policy_);
  scorer->parameters().back().master.detach().fill_(0.1);
  const auto whole = batch(FoldMode::kNever), folded = batch(FoldMode::kAlways);
  const at::Tensor want = scorer->score(*whole), got = scorer->score(*folded);
  EXPECT_TRUE(got.equal(want));
  EXPECT_GT(want.abs().max().item<double>(), 0.01);
  adamw_ = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{scorer},
                                   AdamWOptions{.lr = 1e-2});
  const Objective bradley_terry = [&](MicroBatch& p) {
    const at::Tensor margin = scorer->score(p.chosen()).sub(scorer->score(p.rejected()));
    return ObjectiveResult{{{Unit::kPair, at::log_sigmoid(margin).neg()}}, {}};
  };
  EXPECT_LT(gradient_distance(bradley_terry), 1e-5);
}

// Both round the same products in another order, so neither is further from fp32 than the other.
TEST_F(FoldedBatch, InBf16FoldingAddsNoErrorBeyondRounding) {
  init_model(folder_.path() / "even", {.scale = 0.05});
  open({}, folder_.path() / "even");
  const auto exact = gradients(*batch(FoldMode::kNever), dpo_objective());
  open({.dtype = at::kBFloat16}, folder_.path() / "even");
  const double apart = distance(gradients(*batch(FoldMode::kNever), dpo_objective()), exact);
  const double folded = distance(gradients(*batch(FoldMode::kAlways), dpo_objective()), exact);
  EXPECT_GT(apart, 1e-4);
  EXPECT_LT(folded, 1.2 * apart);
  open({.dtype = at::kBFloat16, .gemm = GemmType::kFloat}, folder_.path() / "even");
  expect_same_bits_of_logprobs();
}

TEST_F(FoldedBatch, AnAdapterFoldsInTheForwardAndInItsFactors) {
  open({.lora = AdapterOptions{.rank = 4}});
  uint64_t seed = 50;
  for (Parameter& one : policy_->parameters()) {  // fresh factors add nothing
    one.master.detach().copy_(random_tensor(one.master.sizes().vec(), seed++, 0.2));
  }
  expect_same_bits_of_logprobs();
  EXPECT_LT(gradient_distance(dpo_objective()), 1e-5);
}

TEST_F(FoldedBatch, RecomputedBlocksGiveTheBitsOfKeptOnes) {
  const auto kept = gradients(*batch(FoldMode::kAlways), dpo_objective());
  open({.recompute = true});
  const auto again = gradients(*batch(FoldMode::kAlways), dpo_objective());
  ASSERT_EQ(again.size(), kept.size());
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(again[i].equal(kept[i])) << i;
  EXPECT_LT(gradient_distance(dpo_objective()), 1e-5);
}

TEST_F(FoldedBatch, AReferenceHasTheBitsOfTheSeparateSequences) {
  train_step({{batch(FoldMode::kNever).get(), dpo_objective()}}, adamw_.get());
  const auto whole = batch(FoldMode::kNever), folded = batch(FoldMode::kAlways);
  EXPECT_TRUE(reference_->logprob(*folded).equal(reference_->logprob(*whole)));
  EXPECT_TRUE(reference_->token_logprob(*folded).equal(reference_->token_logprob(*whole)));
  EXPECT_EQ(reference_->counts().cached, 0);
  EXPECT_EQ(reference_->counts().computed, 2 * 12);
}

TEST_F(FoldedBatch, AMixtureCountsASharedTokenOnceForEverySequence) {
  init_model(folder_.path() / "mixture", {.family = "qwen3_moe",
                                          .hidden = 32,
                                          .experts = 4,
                                          .top_k = 2,
                                          .expert_ffn = 24,
                                          .scale = 0.2});
  open({.moe_aux = 10}, folder_.path() / "mixture");
  expect_same_bits_of_logprobs();
  EXPECT_LT(gradient_distance(dpo_objective()), 1e-5);
  StepOptions still;
  still.lr = 0;
  const auto metrics = [&](FoldMode mode) {
    return train_step({{batch(mode).get(), dpo_objective()}}, adamw_.get(), still);
  };
  const Metrics whole = metrics(FoldMode::kNever), folded = metrics(FoldMode::kAlways);
  for (const char* name : {"train/moe/load_max", "train/moe/load_min", "train/moe/idle"}) {
    EXPECT_EQ(value(folded, name), value(whole, name)) << name;
  }
  EXPECT_NEAR(value(folded, "train/moe/aux_loss"), value(whole, "train/moe/aux_loss"), 1e-6);
}

TEST_F(FoldedBatch, TheHeadMeetsThePredictionsOfAViewOnce) {
  const HeadOptions options{.temperature = 0.7, .entropy = true, .lse = true, .top_k = 3};
  std::vector<TinyPair> pairs = shared_prefix_pairs(6);
  pairs[1] = pairs[0];  // every trained token of one side twice
  const auto micro_of = [&](FoldMode mode) {
    return tiny_batch(pairs, 6, fold_info(mode))->micros()[0];
  };
  const auto whole = micro_of(FoldMode::kNever), folded = micro_of(FoldMode::kAlways);
  std::vector<at::Tensor> gradients;
  for (const auto& micro : {whole, folded}) {
    const View view = micro->chosen();
    const int64_t before = head_counts().rows;
    policy_->head(view, options).entropy.sum().backward();
    const int64_t rows = head_counts().rows - before;
    EXPECT_EQ(rows, view.row_count() - (micro == whole ? 0 : std::ssize(pairs[0].chosen)));
    gradients.push_back(policy_->parameters()[0].master.grad().clone());
    for (Parameter& one : policy_->parameters()) one.master.mutable_grad() = at::Tensor();
    micro->close();
  }
  EXPECT_LT(relative_difference(gradients[1], gradients[0]), 1e-5);
  const at::NoGradGuard no_grad;
  const HeadResult want = policy_->head(whole->chosen(), options);
  const HeadResult got = policy_->head(folded->chosen(), options);
  EXPECT_TRUE(got.logprob.equal(want.logprob));
  EXPECT_TRUE(got.entropy.equal(want.entropy));
  EXPECT_TRUE(got.lse.equal(want.lse));
  EXPECT_TRUE(got.top_logprob.equal(want.top_logprob));
  EXPECT_TRUE(got.top_id.equal(want.top_id));
  // Targets that an objective gives are separate predictions.
  const HeadResult other = policy_->head(folded->chosen(), {}, want.top_id);
  EXPECT_TRUE(other.logprob.equal(policy_->head(whole->chosen(), {}, want.top_id).logprob));
}

TEST_F(FoldedBatch, AutoLeavesAPackAloneThatSharesLittle) {
  BatchInfo info = fold_info(FoldMode::kAuto);
  info.fold.min_ratio = 100;
  const auto batch = tiny_batch(shared_prefix_pairs(6), 3, info);
  EXPECT_EQ(batch->micros()[0]->computed(policy_->model()).fold, nullptr);
  // A pack that would not fit otherwise is still folded.
  info.fold.max_tokens = 10;
  const auto full = tiny_batch(shared_prefix_pairs(6), 3, info);
  EXPECT_NE(full->micros()[0]->computed(policy_->model()).fold, nullptr);
}

// First with the reference in the policy's own forward, then, after an update that changes no
// weight, with the stored values of pairs that were computed alone and whole.
TEST_F(FoldedBatch, AStepOfDpoBeginsAtExactlyTheLogarithmOfTwo) {
  const std::vector<TinyPair> pairs = shared_prefix_pairs(6);
  BatchInfo apart = fold_info(FoldMode::kNever), folded = fold_info(FoldMode::kAlways);
  apart.data_key = folded.data_key = "data";
  StepOptions still;
  still.lr = 0;
  const Objective objective = [inner = dpo_objective()](MicroBatch& micro) {
    ObjectiveResult result = inner(micro);
    EXPECT_EQ(result.metrics.front().second.abs().max().item<double>(), 0) << "margin";
    return result;
  };
  const auto expect_step_0 = [&](size_t per_pack) {
    const auto batch = tiny_batch(pairs, per_pack, folded);
    const Metrics metrics = train_step({{batch.get(), objective}}, adamw_.get(), still);
    EXPECT_EQ(value(metrics, "loss"), static_cast<double>(std::log(2.0f))) << per_pack;
    EXPECT_EQ(value(metrics, "accuracy"), 0.5);
  };
  expect_step_0(3);
  EXPECT_EQ(reference_->shared(), 12);
  reference_->logprob(*tiny_batch(pairs, 1, apart));
  for (const size_t per_pack : {1, 3, 6}) expect_step_0(per_pack);  // 1: with held prefixes
  EXPECT_EQ(reference_->counts().computed, 12) << "all of them were stored";
}

}  // namespace xrun::folded_batch_test
