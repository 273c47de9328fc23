// Routes of a mixture of experts: recorded while sampling, taken again in training.

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/model/model.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/weights/init_model.h"
#include "core/rollout/answer_history.h"
#include "core/rollout/rollout_sampler.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/models/policy.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::replay_routes_test {
namespace {

class ReplayRoutes : public testing::Test {
 protected:
  ReplayRoutes() {
    at::set_num_threads(1);
    const std::filesystem::path tokenizer = source_path("tests/data/tiny_tokenizer");
    InitOptions options{.family = "qwen3_moe", .hidden = 32, .ffn = 48, .scale = 0.2};
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size();
    options.experts = 6;
    options.top_k = 2;
    options.expert_ffn = 16;
    init_model(folder_, options);
    policy_ = Policy::open(folder_);
  }

  static std::shared_ptr<Batch> prompts(FoldMode fold) {
    BatchInfo info;
    info.total_steps = 10;
    info.fold = {.mode = fold, .min_run = 2};
    PackedBatch pack;
    for (int32_t i = 0; i < 2; ++i) {
      std::vector<int32_t> ids;
      for (int32_t t = 0; t < 9 + i; ++t) ids.push_back((7 * t + 31 * i) % 250);
      pack.append({.row_id = i, .group_id = i, .segment_id = i}, ids,
                  std::vector<uint8_t>(ids.size(), 0));
    }
    return std::make_shared<Batch>(std::move(info), std::vector<PackedBatch>{pack});
  }
  std::shared_ptr<Rollouts> sample(FoldMode fold, bool replay = true, int64_t batch = 64,
                                   AnswerHistory* history = nullptr) {
    RolloutOptions options{.samples = 3, .history = history, .replay_routes = replay};
    options.text.generate = {
        .max_new_tokens = 12, .batch = batch, .sampling = {.temperature = 1, .seed = 5}};
    return sample_rollouts(*policy_, &policy_->model(), *prompts(fold), options);
  }
  at::Tensor logprob(Rollouts& rollouts) { return policy_->LogprobSource::token_logprob(rollouts); }
  // Every router now prefers the experts that it preferred least.
  void turn_routers() {
    const at::NoGradGuard no_grad;
    for (Parameter& parameter : policy_->model().parameters()) {
      if (parameter.name.ends_with("mlp.gate.weight")) parameter.master.neg_();
    }
    ++policy_->model().update_count;
  }

  const ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_ / "model";
  std::shared_ptr<Policy> policy_;
};

TEST_F(ReplayRoutes, ChangeNoBitWithoutAnUpdate) {
  for (const FoldMode fold : {FoldMode::kNever, FoldMode::kAlways}) {
    const auto rollouts = sample(fold);
    EXPECT_EQ(rollouts->micros()[0]->computed(policy_->model()).fold != nullptr,
              fold == FoldMode::kAlways);
    ASSERT_NE(rollouts->micros()[0]->replayed(policy_->model()), nullptr);
    EXPECT_TRUE(logprob(*rollouts).equal(rollouts->field("old_logprob")));
    EXPECT_TRUE(logprob(*sample(fold, false)).equal(rollouts->field("old_logprob")));
  }
}

TEST_F(ReplayRoutes, AreTheRecordedOnesAfterAnUpdate) {
  const auto folded = sample(FoldMode::kAlways), whole = sample(FoldMode::kNever);
  const auto free = sample(FoldMode::kNever, false);
  turn_routers();
  EXPECT_TRUE(logprob(*folded).equal(logprob(*whole))) << "folding shares replayed tokens";
  EXPECT_FALSE(logprob(*free).equal(logprob(*whole))) << "routing has changed";
  // In one answer all experts are the recorded ones, except those of the last token.
  const auto one = whole->subset({4});
  logprob(*one);  // without gradient
  const at::Tensor with_gradient = policy_->token_logprob(one->micros()[0]->all());
  const TokenRoutes& routes = *one->rollouts()[0]->routes;
  const RouterRecord& record = *one->micros()[0]->router(policy_->model());
  ASSERT_EQ(std::ssize(record.layers), routes.layers);
  EXPECT_EQ(routes.token_count() + 1, one->token_count());
  EXPECT_EQ(routes.token_count() + 1, record.tokens);
  for (int64_t layer = 0; layer < routes.layers; ++layer) {
    std::vector<double> left(6);
    for (int64_t e = 0; e < 6; ++e) {
      left[static_cast<size_t>(e)] =
          record.layers[static_cast<size_t>(layer)].count[e].item().toDouble();
    }
    for (int64_t t = 0; t < routes.token_count(); ++t) {
      for (int64_t k = 0; k < routes.top_k; ++k) {
        --left[static_cast<size_t>(
            routes.experts[static_cast<size_t>((t * routes.layers + layer) * routes.top_k + k)])];
      }
    }
    EXPECT_EQ(std::count(left.begin(), left.end(), 1), routes.top_k);
    EXPECT_EQ(std::count(left.begin(), left.end(), 0), 6 - routes.top_k);
  }
}

TEST_F(ReplayRoutes, DependOnNothingElseInTheBatch) {
  AnswerHistory history;
  sample(FoldMode::kNever, true, 64, &history);
  const auto first = sample(FoldMode::kNever);
  for (const auto& other :
       {sample(FoldMode::kNever, true, 1), sample(FoldMode::kNever, true, 64, &history)}) {
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(other->rollouts()[i]->routes->experts, first->rollouts()[i]->routes->experts) << i;
    }
  }
}

TEST_F(ReplayRoutes, RoutesOfAnotherModelAreNotReplayed) {
  const auto rollouts = sample(FoldMode::kNever);
  const auto other = Policy::open(folder_);
  EXPECT_EQ(rollouts->micros()[0]->replayed(other->model()), nullptr);
  const auto free = sample(FoldMode::kNever, false);
  EXPECT_EQ(free->rollouts()[0]->routes, nullptr);
  EXPECT_EQ(free->micros()[0]->replayed(policy_->model()), nullptr);
}

TEST_F(ReplayRoutes, TokensWithDifferentRoutesAreNotFolded) {
  const auto folded = sample(FoldMode::kAlways), whole = sample(FoldMode::kNever);
  const auto change = [](const Rollouts& rollouts) {  // the experts of token 5 of rollout 1
    TokenRoutes changed = *rollouts.rollouts()[1]->routes;
    const auto at = changed.experts.begin() + 5 * changed.width();
    std::swap(at[0], at[1]);
    rollouts.rollouts()[1]->routes = std::make_shared<const TokenRoutes>(changed);
  };
  const auto tokens = [&](Rollouts& rollouts) {
    return rollouts.micros()[0]->computed(policy_->model()).token_count();
  };
  const int64_t before = tokens(*folded->subset({0, 1, 2}));
  change(*folded);
  change(*whole);
  const auto again = folded->subset({0, 1, 2});
  // The prompts of 9 tokens share the first 5; rollouts 0 and 2 share theirs as before.
  EXPECT_EQ(tokens(*again), before + 4);
  EXPECT_NE(again->micros()[0]->computed(policy_->model()).fold, nullptr);
  turn_routers();
  EXPECT_TRUE(logprob(*again).equal(logprob(*whole->subset({0, 1, 2}))));
}

TEST_F(ReplayRoutes, DifferentRoutesSplitAMicroBatch) {
  const auto rollouts = sample(FoldMode::kAlways);
  const auto first = rollouts->subset({0, 1, 2});
  BatchInfo info = first->info();
  info.max_tokens = first->micros()[0]->computed(policy_->model()).token_count();
  const auto packs = [&] { return Rollouts(info, first->rollouts()).micros(); };
  EXPECT_EQ(packs().size(), 1u);
  TokenRoutes changed = *first->rollouts()[1]->routes;
  std::swap(changed.experts[0], changed.experts[1]);
  first->rollouts()[1]->routes = std::make_shared<const TokenRoutes>(changed);
  const auto split = packs();
  EXPECT_EQ(split.size(), 2u);
  for (const auto& micro : split) {
    EXPECT_LE(micro->computed(policy_->model()).token_count(), info.max_tokens);
  }
}

}  // namespace
}  // namespace xrun::replay_routes_test
