#include "core/train/reference.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "core/train/adamw.h"
#include "core/train/policy.h"
#include "core/train/step.h"
#include "tests/core/train/tiny_pairs.h"

namespace xrun {
namespace {

class ReferenceTest : public testing::Test {
 protected:
  struct Trained {
    std::shared_ptr<Policy> policy;
    std::shared_ptr<Reference> reference;
    std::shared_ptr<AdamW> adamw;
  };
  Trained open(PolicyOptions options = {}) {
    Trained t;
    t.policy = Policy::open(folder_.model(), options);
    t.reference = t.policy->reference();
    AdamWOptions optim;
    optim.lr = 1e-2;
    t.adamw = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{t.policy}, optim);
    return t;
  }
  static std::shared_ptr<Batch> batch(const std::vector<TinyPair>& pairs, size_t per_pack,
                                      const std::string& data_key = "data") {
    BatchInfo info;
    info.data_key = data_key;
    return tiny_batch(pairs, per_pack, info);
  }
  static void step(Trained& t) {
    train_step(*batch(tiny_pairs(4, 77), 2, "other"), dpo(t.policy, t.reference, 0.1), *t.adamw);
  }

  TinyFolder folder_;
};

TEST_F(ReferenceTest, SharesThePolicysForwardUntilTheFirstUpdate) {
  Trained t = open();
  const auto some = batch(tiny_pairs(5), 5);
  const View view = some->micros()[0]->chosen();
  EXPECT_TRUE(at::equal(t.policy->logprob(view), t.reference->logprob(view)));
  EXPECT_EQ(t.reference->counts().shared, 5);
  step(t);
  EXPECT_FALSE(at::equal(t.policy->logprob(view), t.reference->logprob(view)));
  EXPECT_EQ(t.reference->counts().computed, 10) << "both sides of each pair, once";
}

TEST_F(ReferenceTest, StaysTheModelThatThePolicyWas) {
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
      train_step(*batch(tiny_pairs(6), 3), dpo(t.policy, t.reference, 0.1), *t.adamw);
    }
    return std::pair(t.policy->digest(), t.reference->counts().computed);
  };
  const auto [digest, computed] = run();
  const auto [again, none] = run();
  EXPECT_EQ(digest, again);
  EXPECT_EQ(computed, 12);
  EXPECT_EQ(none, 0);
}

TEST_F(ReferenceTest, TheKeyMissesWhenAnythingThatChangesANumberChanges) {
  Trained t = open();
  std::set<std::string> keys = {dump_json(t.reference->column_key("data"))};
  keys.insert(dump_json(t.reference->column_key("more data")));
  PolicyOptions options;
  options.head_mb = 1;
  Trained head = open(options);
  keys.insert(dump_json(head.reference->column_key("data")));
  options.head_mb = 1024;
  options.dtype = at::kBFloat16;
  Trained half = open(options);
  keys.insert(dump_json(half.reference->column_key("data")));
  const auto other = Policy::open(folder_.model(/*seed=*/1));
  keys.insert(dump_json(other->reference()->column_key("data")));
  const int threads = at::get_num_threads();
  at::set_num_threads(threads + 1);
  keys.insert(dump_json(t.reference->column_key("data")));
  at::set_num_threads(threads);
  EXPECT_EQ(keys.size(), 6u);
  EXPECT_EQ(dump_json(t.reference->column_key("data")),
            dump_json(open().reference->column_key("data")));
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
  try {
    t.reference->logprob(*batch(tiny_pairs(2), 2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("the weights in this folder changed since the "
                        "reference was taken"),
              std::string::npos);
  }
}

// What a checkpoint would hold of a policy and its optimizer.
struct Saved {
  std::map<std::string, at::Tensor> policy, adamw;
  Json policy_state, adamw_state;
};

void take(const Saveable& from, std::map<std::string, at::Tensor>& tensors, Json& state) {
  for (const NamedTensor& one : from.tensors()) tensors[one.name] = one.tensor.clone();
  state = parse_json(dump_json(from.state()), "state");
}
void give(Saveable& to, const std::map<std::string, at::Tensor>& tensors, const Json& state) {
  to.restore([&](const std::string& name) { return tensors.at(name); }, state);
}

TEST_F(ReferenceTest, AResumedRunGoesOnWithTheSameBitsFromTheColumn) {
  const auto one_step = [&](Trained& t) {
    train_step(*batch(tiny_pairs(6), 3), dpo(t.policy, t.reference, 0.1), *t.adamw);
  };
  Trained whole = open();
  Saved saved;
  for (int k = 0; k < 5; ++k) {
    if (k == 2) {
      take(*whole.policy, saved.policy, saved.policy_state);
      take(*whole.adamw, saved.adamw, saved.adamw_state);
    }
    one_step(whole);
  }
  Trained resumed = open();
  give(*resumed.policy, saved.policy, saved.policy_state);
  give(*resumed.adamw, saved.adamw, saved.adamw_state);
  EXPECT_EQ(resumed.policy->update_count(), 2);
  for (int k = 2; k < 5; ++k) one_step(resumed);
  EXPECT_EQ(resumed.policy->digest(), whole.policy->digest());
  EXPECT_EQ(resumed.reference->counts().shared, 0);
  for (const auto& [name, tensor] : saved.policy) {
    EXPECT_EQ(name.find("reference"), std::string::npos) << "the reference is in no checkpoint";
  }
  EXPECT_EQ(saved.policy.size(), whole.policy->parameters().size());
}

TEST_F(ReferenceTest, ResumingWithAnotherFolderIsRefused) {
  Trained t = open();
  step(t);
  Saved saved;
  take(*t.policy, saved.policy, saved.policy_state);
  const auto other = Policy::open(folder_.model(/*seed=*/1));
  try {
    give(*other, saved.policy, saved.policy_state);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("changed since the run began"), std::string::npos);
  }
}

TEST_F(ReferenceTest, ResumingInAnotherComputeTypeTakesTheDigestsAnew) {
  Trained t = open();
  t.policy->set_snapshot_dir(folder_.path() / "references");
  step(t);
  t.policy->reference();
  Saved saved;
  take(*t.policy, saved.policy, saved.policy_state);
  PolicyOptions options;
  options.dtype = at::kBFloat16;
  Trained resumed = open(options);
  resumed.policy->set_snapshot_dir(folder_.path() / "references");
  give(*resumed.policy, saved.policy, saved.policy_state);
  const auto second = resumed.policy->reference();
  const auto some = batch(tiny_pairs(2), 2);
  step(resumed);
  for (const auto& reference : {resumed.reference, second}) {
    EXPECT_TRUE(reference->logprob(*some).isfinite().all().item<bool>());
  }
}

TEST_F(ReferenceTest, OneTakenAfterTrainingBeganIsWrittenOnceAndFoundAgain) {
  Trained t = open();
  t.policy->set_snapshot_dir(folder_.path() / "references");
  step(t);
  const auto second = t.policy->reference();
  const std::string digest = t.policy->digest();
  const auto some = batch(tiny_pairs(3), 3);
  EXPECT_TRUE(at::equal(second->logprob(*some), t.policy->logprob(*some)));
  Saved saved;
  step(t);
  take(*t.policy, saved.policy, saved.policy_state);
  const at::Tensor values = second->logprob(*some);
  EXPECT_EQ(second->digest(), digest);
  EXPECT_EQ(second->dir(), folder_.path() / "references" / "reference_1");

  Trained resumed = open();
  resumed.policy->set_snapshot_dir(folder_.path() / "references");
  give(*resumed.policy, saved.policy, saved.policy_state);
  const auto again = resumed.policy->reference();
  EXPECT_EQ(again->digest(), digest);
  setenv("XRUN_CACHE", (folder_.path() / "empty").c_str(), 1);
  EXPECT_TRUE(at::equal(again->logprob(*some), values));
}

TEST_F(ReferenceTest, OneTakenAfterTrainingBeganNeedsARun) {
  Trained t = open();
  step(t);
  EXPECT_THROW(t.policy->reference(), Error);
}

TEST_F(ReferenceTest, FrozenWeightsThatDriftAreNoticed) {
  Trained t = open();
  const at::NoGradGuard no_grad;
  t.policy->parameters()[0].master.detach().add_(1);  // someone writes into the shared storage
  EXPECT_NO_THROW(open().reference->check_digest());
  EXPECT_THROW(t.reference->check_digest(), Error);
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
}  // namespace xrun
