// Folded micro-batches give the losses and gradients of the separate sequences.

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/train/adamw.h"
#include "core/train/computed_pack.h"
#include "core/train/fold_check.h"
#include "core/train/policy.h"
#include "core/train/scorer.h"
#include "core/train/step.h"
#include "tests/core/train/step_fixture.h"
#include "tests/core/train/tiny_pairs.h"

namespace xrun::folded_batch_test {

namespace {

// Pairs whose sides share the prompt and the beginning of the answer, some with a common prompt.
std::vector<TinyPair> pairs_with_shared_prefixes() {
  std::vector<TinyPair> pairs = tiny_pairs(6, 3);
  for (size_t i = 0; i < pairs.size(); ++i) {
    TinyPair& pair = pairs[i];
    if (i % 2 == 1) pair.prompt = pairs[i - 1].prompt;
    pair.rejected.insert(pair.rejected.begin(), pair.chosen.begin(), pair.chosen.begin() + 2);
  }
  return pairs;
}

BatchInfo info_with(FoldMode mode) {
  BatchInfo info;
  info.fold.mode = mode;
  info.fold.min_run = 1;
  return info;
}

class FoldedBatch : public StepTest {
 protected:
  std::shared_ptr<Batch> batch(FoldMode mode) {
    return tiny_batch(pairs_with_shared_prefixes(), 3, info_with(mode));
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

TEST_F(FoldedBatch, LogprobsAreThoseOfTheSeparateSequences) {
  const auto whole = batch(FoldMode::kNever), folded = batch(FoldMode::kAlways);
  const at::Tensor want = policy_->token_logprob(*whole), got = policy_->token_logprob(*folded);
  EXPECT_TRUE(got.equal(want)) << got.sub(want).abs().max().item<double>();
}

TEST_F(FoldedBatch, GradientsAreThoseOfTheSeparateSequences) {
  const auto want = gradients(*batch(FoldMode::kNever), dpo_objective());
  const auto got = gradients(*batch(FoldMode::kAlways), dpo_objective());
  EXPECT_LT(distance(got, want), 1e-5);
}

TEST_F(FoldedBatch, ASequenceLossOverSharedTrainedTokensCountsEverySequence) {
  const Objective nll = [&](MicroBatch& micro) {
    return ObjectiveResult{{{Unit::kToken, policy_->token_logprob(micro.all()).neg()}}, {}};
  };
  // Duplicates share every token.
  std::vector<TinyPair> pairs = pairs_with_shared_prefixes();
  for (TinyPair& pair : pairs) pair.rejected = pair.chosen;
  const auto want = gradients(*tiny_batch(pairs, 3, info_with(FoldMode::kNever)), nll);
  const auto got = gradients(*tiny_batch(pairs, 3, info_with(FoldMode::kAlways)), nll);
  EXPECT_LT(distance(got, want), 1e-5);
}

TEST_F(FoldedBatch, AScorerReadsTheLastTokenOfEverySequence) {
  Scorer scorer(policy_);
  const_cast<at::Tensor&>(scorer.parameters().back().master).detach().fill_(0.1);
  const auto whole = batch(FoldMode::kNever), folded = batch(FoldMode::kAlways);
  const at::Tensor want = scorer.score(*whole), got = scorer.score(*folded);
  EXPECT_LT(got.sub(want).abs().max().item<double>(), 1e-5);
  EXPECT_GT(want.abs().max().item<double>(), 0.01);
}

TEST_F(FoldedBatch, AutoLeavesAPackAloneThatSharesLittle) {
  BatchInfo info = info_with(FoldMode::kAuto);
  info.fold.min_ratio = 100;
  const auto batch = tiny_batch(pairs_with_shared_prefixes(), 3, info);
  EXPECT_EQ(batch->micros()[0]->computed(policy_->model()).fold, nullptr);
  // A pack that would not fit otherwise is folded all the same.
  info.fold.max_tokens = 10;
  const auto full = tiny_batch(pairs_with_shared_prefixes(), 3, info);
  EXPECT_NE(full->micros()[0]->computed(policy_->model()).fold, nullptr);
}

TEST_F(FoldedBatch, TheCheckFindsADeviationInOneNode) {
  const auto folded = batch(FoldMode::kAlways);
  MicroBatch& micro = *folded->micros()[0];
  Model& model = policy_->model();
  const auto name = [](int64_t row) { return "pairs.jsonl:" + std::to_string(row + 1); };
  EXPECT_LT(check_fold(model, micro.pack(), micro.computed(model), name), 1e-5);
  ComputedPack wrong = micro.computed(model);
  // The first token of a node below a root stands one position too early.
  const auto node = static_cast<size_t>(wrong.fold->parent.size() - 1);
  ASSERT_GE(wrong.fold->parent[node], 0);
  wrong.input.position_ids = wrong.input.position_ids.clone();
  wrong.input.position_ids[wrong.fold->node_begin[node]] -= 1;
  try {
    check_fold(model, micro.pack(), wrong, name);
    ADD_FAILURE() << "the deviation was not found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("pairs.jsonl:"), std::string::npos) << error.what();
  }
}

}  // namespace xrun::folded_batch_test
