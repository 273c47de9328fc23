// A reference equals the policy until its first update, then reads values that no batch changes.

#include "core/train/models/reference.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <functional>
#include <set>

#include "core/base/error.h"
#include "core/train/evaluate.h"
#include "tests/core/train/models/reference_fixture.h"
#include "tests/core/train/models/reference_peer.h"
#include "tests/error_of.h"

namespace xrun::reference_test {
namespace {

TEST_F(ReferenceTest, SharesThePolicysForwardUntilTheFirstUpdate) {
  Trained t = open();
  const auto some = batch(tiny_pairs(5), 5);
  const View view = some->micros()[0]->chosen();
  EXPECT_TRUE(at::equal(t.policy->logprob(view), t.reference->logprob(view)));
  EXPECT_EQ(t.reference->shared(), 5);
  step(t);
  EXPECT_FALSE(at::equal(t.policy->logprob(view), t.reference->logprob(view)));
  EXPECT_EQ(t.reference->counts().computed, 10) << "both sides of each pair, once";
}

TEST_F(ReferenceTest, KeepsThePolicysInitialWeights) {
  Trained t = open();
  const auto some = batch(tiny_pairs(5), 5);
  const at::Tensor before = t.reference->logprob(*some);
  step(t);
  step(t);
  const at::Tensor after = t.reference->logprob(*some);
  EXPECT_LT(before.sub(after).abs().div(before.abs()).max().item().toDouble(), 1e-5);
  t.reference->check_digest();
  EXPECT_EQ(t.reference->digest(), t.policy->initial_digest());
  EXPECT_NE(t.policy->digest(), t.policy->initial_digest());
}

TEST_F(ReferenceTest, ValuesDependNeitherOnTheBatchNorOnTheCache) {
  const std::vector<TinyPair> pairs = tiny_pairs(6);
  Trained cold = open();
  step(cold);
  const at::Tensor together = cold.reference->logprob(*batch(pairs, 6));
  const at::Tensor uncached = cold.reference->logprob(*batch(pairs, 2, /*data_key=*/""));
  EXPECT_TRUE(at::equal(together, uncached));
  cold.reference->flush();

  Trained warm = open();
  step(warm);
  const int64_t computed = warm.reference->counts().computed;
  EXPECT_TRUE(at::equal(together, warm.reference->logprob(*batch(pairs, 1))));
  EXPECT_EQ(warm.reference->counts().computed, computed);
  EXPECT_GT(warm.reference->counts().cached, 0);
}

TEST_F(ReferenceTest, AWarmCacheChangesNoBitOfTheRun) {
  const auto run = [&] {
    Trained t = open();
    for (int k = 0; k < 4; ++k) {
      train_step({{batch(tiny_pairs(6), 3).get(), dpo(t.policy, t.reference, 0.1)}}, t.adamw.get());
    }
    return std::pair(t.policy->digest(), t.reference->counts().computed);
  };
  const auto [digest, computed] = run();
  const auto [again, none] = run();
  EXPECT_EQ(digest, again);
  EXPECT_EQ(computed, 12);
  EXPECT_EQ(none, 0);
}

TEST_F(ReferenceTest, TheKeyCoversEverythingThatChangesAValue) {
  Trained t = open();
  std::set<std::string> keys = {ReferencePeer::key_text(*t.reference, "data")};
  keys.insert(ReferencePeer::key_text(*t.reference, "more data"));
  PolicyOptions options;
  options.head_mb = 1;
  Trained head = open(options);
  keys.insert(ReferencePeer::key_text(*head.reference, "data"));
  options.head_mb = 1024;
  options.dtype = at::kBFloat16;
  Trained half = open(options);
  keys.insert(ReferencePeer::key_text(*half.reference, "data"));
  const auto other = Policy::open(folder_.model(/*seed=*/1));
  keys.insert(ReferencePeer::key_text(*other->reference(), "data"));
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 1);
  keys.insert(ReferencePeer::key_text(*t.reference, "data"));
  at::set_num_threads(threads);
  EXPECT_EQ(keys.size(), 6u);
  EXPECT_EQ(ReferencePeer::key_text(*t.reference, "data"),
            ReferencePeer::key_text(*open().reference, "data"));
}

TEST_F(ReferenceTest, TheLossReachesNoWeightOfTheReference) {
  Trained t = open();
  step(t);
  const auto some = batch(tiny_pairs(3), 3);
  MicroBatch& micro = *some->micros()[0];
  const at::Tensor reference = t.reference->token_logprob(micro.all());
  EXPECT_FALSE(reference.requires_grad());
  EXPECT_FALSE(t.reference->logprob(micro.chosen()).requires_grad());
  const at::Tensor loss = dpo(t.policy, t.reference, 0.1)(micro).losses[0].second;
  std::set<const void*> masters;
  for (const Parameter& p : t.policy->parameters()) masters.insert(p.master.unsafeGetTensorImpl());
  std::set<const torch::autograd::Node*> seen;
  size_t leaves = 0;
  const std::function<void(const std::shared_ptr<torch::autograd::Node>&)> walk =
      [&](const std::shared_ptr<torch::autograd::Node>& node) {
        if (!node || !seen.insert(node.get()).second) return;
        if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get())) {
          ++leaves;
          EXPECT_EQ(masters.count(leaf->variable.unsafeGetTensorImpl()), 1u);
        }
        for (const auto& edge : node->next_edges()) walk(edge.function);
      };
  walk(loss.grad_fn());
  EXPECT_EQ(leaves, masters.size());
}

TEST_F(ReferenceTest, AFolderThatChangedIsRefused) {
  Trained t = open();
  step(t);
  const std::filesystem::path dir = folder_.model();
  std::filesystem::copy_file(folder_.model(/*seed=*/1) / "model.safetensors",
                             dir / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(
      throws<Error>("the weights in this folder changed since the "
                    "reference was taken",
                    [&] { t.reference->logprob(*batch(tiny_pairs(2), 2)); }));
}

TEST_F(ReferenceTest, ARunNeverChangesItsWeights) {
  Trained t = open();
  t.policy->set_snapshot_dir(folder_.path() / "references");
  const std::string digest = t.reference->digest();
  step(t);
  const auto check = [&](const char* after) {
    EXPECT_NO_THROW(t.reference->check_digest()) << after;
    EXPECT_EQ(t.policy->load_frozen(folder_.model())->digest(), digest) << after;
  };
  check("a step");
  bool given = false;
  evaluate([&]() { return std::exchange(given, true) ? nullptr : batch(tiny_pairs(3), 3); },
           dpo(t.policy, t.reference, 0.1));
  check("an evaluation");
  Saved saved;
  take(*t.policy, saved.policy, saved.policy_state);
  give(*t.policy, saved.policy, saved.policy_state);
  check("a checkpoint");
  t.policy->reference();
  t.policy->export_to(folder_.path() / "hf");
  check("an export");
}

TEST_F(ReferenceTest, InBfloat16ItHasNoCopyInFullPrecision) {
  PolicyOptions options;
  options.dtype = at::kBFloat16;
  Trained t = open(options);
  step(t);
  int64_t masters = 0, frozen = 0;
  for (const Parameter& p : t.policy->parameters()) {
    EXPECT_EQ(p.master.scalar_type(), at::kFloat) << p.name;
    masters += static_cast<int64_t>(p.master.nbytes());
  }
  const auto model = t.policy->load_frozen(folder_.model());  // what a reference runs
  EXPECT_FALSE(model->trainable());
  EXPECT_TRUE(model->trained_parameters().empty());
  for (const Parameter& p : model->parameters()) {
    EXPECT_EQ(p.master.scalar_type(), at::kBFloat16) << p.name;
    EXPECT_FALSE(p.master.requires_grad()) << p.name;
    frozen += static_cast<int64_t>(p.master.nbytes());
  }
  EXPECT_EQ(2 * frozen, masters);
  const auto some = batch(tiny_pairs(2), 2);
  EXPECT_EQ(t.policy->token_logprob(some->micros()[0]->all()).scalar_type(), at::kFloat);
}

TEST_F(ReferenceTest, FrozenWeightsThatChangeAreDetected) {
  Trained t = open();
  const at::NoGradGuard no_grad;
  t.policy->parameters()[0].master.detach().add_(1);  // someone writes into the shared storage
  EXPECT_NO_THROW(open().reference->check_digest());
  EXPECT_TRUE(throws<Error>("the frozen weights of the reference changed in memory (digest ",
                            [&] { t.reference->check_digest(); }));
}

TEST_F(ReferenceTest, Bfloat16KeepsTheSameStepZero) {
  PolicyOptions options;
  options.dtype = at::kBFloat16;
  Trained t = open(options);
  const auto some = batch(tiny_pairs(5), 5);
  const at::Tensor before = t.reference->logprob(*some);
  EXPECT_TRUE(at::equal(t.policy->logprob(*some), before));
  step(t);
  const at::Tensor after = t.reference->logprob(*some);
  EXPECT_LT(before.sub(after).abs().div(before.abs()).max().item().toDouble(), 2e-2);
  for (const Parameter& p : t.policy->parameters()) EXPECT_EQ(p.master.scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace xrun::reference_test
