// The average of the weights: its equation, its use, its checkpoint, and its share on ranks.

#include "core/train/ema.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/run/checkpoint.h"
#include "core/train/models/scorer.h"
#include "tests/core/train/fetching.h"
#include "tests/core/train/trained.h"
#include "tests/error_of.h"
#include "tests/forked_ranks.h"
#include "tests/scratch_folder.h"

namespace xrun::ema_test {
namespace {

constexpr double kDecay = 0.75;

std::vector<at::Tensor> weights_of(Policy& policy) {
  std::vector<at::Tensor> out;
  for (const Parameter& parameter : policy.parameters()) {
    out.push_back(parameter.master.detach().clone());
  }
  return out;
}

void step(const Trained& t, int64_t number) {
  StepOptions with;
  with.ranks = t.adamw->dist().ranks;
  train_step({{t.batch(number).get(), t.objective()}}, t.adamw.get(), with);
}

TEST(Ema, FollowsItsEquationFromTheWeightsBeforeTheFirstUpdate) {
  const TinyFolder folder;
  const Trained t = open_trained(folder);
  const auto ema = Ema::of(t.adamw, kDecay);
  ema->swap();  // nothing to exchange yet
  EXPECT_FALSE(ema->in_use());
  std::vector<at::Tensor> wanted = weights_of(*t.policy);
  for (int64_t k = 0; k < 3; ++k) {
    step(t, k);
    const auto now = weights_of(*t.policy);
    for (size_t i = 0; i < now.size(); ++i) {
      wanted[i] = wanted[i].mul(kDecay).add(now[i].mul(1 - kDecay));
    }
  }
  EXPECT_EQ(ema->update_count(), 3);
  const auto trained = weights_of(*t.policy);
  const std::string digest = t.policy->digest();
  ema->swap();
  const auto average = weights_of(*t.policy);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::allclose(average[i], wanted[i], 1e-5, 1e-7)) << i;
  }
  EXPECT_NE(t.policy->digest(), digest);
  ema->swap();
  EXPECT_EQ(t.policy->digest(), digest);
  for (size_t i = 0; i < trained.size(); ++i) {
    EXPECT_TRUE(at::equal(weights_of(*t.policy)[i], trained[i])) << i;
  }
}

// A batch that was scored before the exchange is computed again.
TEST(Ema, ModelsComputeTheAverageWhileItIsUsed) {
  const TinyFolder folder;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Trained t = open_trained(folder, {.dtype = dtype}, {.lr = 0.05});
    const auto ema = Ema::of(t.adamw, kDecay);
    for (int64_t k = 0; k < 2; ++k) step(t, k);
    const auto batch = t.batch();
    const at::NoGradGuard no_grad;
    const at::Tensor before = t.policy->logprob(*batch).clone();
    ema->swap();
    const at::Tensor averaged = t.policy->logprob(*batch).clone();
    ema->swap();
    EXPECT_FALSE(at::equal(averaged, before));
    EXPECT_TRUE(at::equal(t.policy->logprob(*batch), before));
  }
}

// A reference taken after an update shares the policy's forward until the next one, but not the
// average's.
TEST(Ema, AReferenceKeepsItsOwnWeights) {
  const TinyFolder folder;
  const ScratchFolder scratch;
  const Trained t = open_trained(folder, {}, {.lr = 0.05});
  t.policy->set_snapshot_dir(scratch / "reference");
  const auto ema = Ema::of(t.adamw, kDecay);
  step(t, 0);
  const auto second = t.policy->reference();
  const at::NoGradGuard no_grad;
  const at::Tensor wanted = second->logprob(*t.batch()).clone();
  ema->swap();
  EXPECT_TRUE(at::allclose(second->logprob(*t.batch()), wanted, 1e-5, 1e-4));
  EXPECT_FALSE(at::allclose(t.policy->logprob(*t.batch()), wanted, 1e-5, 1e-4));
  EXPECT_EQ(
      error_of([&] { t.policy->reference(); }),
      "cannot take a reference inside ema:use, where the weights are the average; take it outside");
  ema->swap();
  EXPECT_TRUE(at::equal(second->logprob(*t.batch()), wanted));
}

TEST(Ema, AnUpdateOrACheckpointWhileItIsUsedIsAnError) {
  const TinyFolder folder;
  const Trained t = open_trained(folder);
  const auto ema = Ema::of(t.adamw, kDecay);
  step(t, 0);
  ema->swap();
  EXPECT_EQ(error_of([&] { step(t, 1); }),
            "cannot update inside ema:use, where the weights are the average; train outside it");
  EXPECT_EQ(error_of([&] { ema->state(); }),
            "cannot save a checkpoint inside ema:use, where the weights are the average");
}

TEST(Ema, GivesTheWeightsBackBeforeASaveAfterAnError) {
  const TinyFolder folder;
  const Trained t = open_trained(folder);
  const auto ema = Ema::of(t.adamw, kDecay);
  step(t, 0);
  const auto trained = weights_of(*t.policy);
  for (const bool in_use : {true, false}) {
    if (in_use) ema->swap();
    t.adamw->abandon_shared();
    t.adamw->share_again();
    EXPECT_FALSE(ema->in_use());
    EXPECT_NO_THROW(ema->state());
    for (size_t i = 0; i < trained.size(); ++i) {
      EXPECT_TRUE(at::equal(weights_of(*t.policy)[i], trained[i])) << i;
    }
  }
}

TEST(Ema, RejectsADecayOutOfRange) {
  const TinyFolder folder;
  const Trained t = open_trained(folder);
  EXPECT_EQ(error_of([&] { Ema::of(t.adamw, 1); }),
            "decay is 1, wanted a number of at least 0 and below 1");
}

// Only its trained weights have an average.
TEST(Ema, OfPartOfTheWeightsHoldsThatPart) {
  const TinyFolder folder;
  const Trained t = open_trained(folder, {.train = {"*.mlp.*"}});
  const auto ema = Ema::of(t.adamw, kDecay);
  step(t, 0);
  ASSERT_EQ(ema->tensors().size(), t.policy->parameters().size());
  for (const NamedTensor& one : ema->tensors()) {
    EXPECT_NE(one.name.find(".mlp."), std::string::npos) << one.name;
  }
}

// The averages after three updates as text; with a folder, two updates, a checkpoint, and the third
// one after the restore.
std::string averaged(const std::filesystem::path& model, const DistOptions& dist,
                     const std::filesystem::path& checkpoints = {}, PolicyOptions options = {}) {
  options.dist = dist;
  Trained t = open_trained(model, options);
  auto ema = Ema::of(t.adamw, kDecay);
  const auto saved = [&] {
    return SavedObjects{{"adamw", t.adamw}, {"ema", ema}, {"policy", t.policy}};
  };
  int64_t first = 0;
  if (!checkpoints.empty()) {
    for (; first < 2; ++first) step(t, first);
    CheckpointStore store(checkpoints, 2, dist.ranks);
    store.save(2, Json::object(), saved());
    t = open_trained(model, options);
    ema = Ema::of(t.adamw, kDecay);
    store.load_latest()->restore(saved());
  }
  for (int64_t k = first; k < 3; ++k) step(t, k);
  const int64_t size = dist.ranks == nullptr ? 1 : dist.ranks->size();
  if (size > 1 && dist.level > 0) {
    int64_t held = 0, whole = 0;
    for (const TensorRange& range : ema->ranges()) {
      int64_t elements = 1;
      for (const int64_t n : range.shape) elements *= n;
      held += range.held.numel();
      whole += elements;
    }
    // A chunk of the flat index more, at most.
    EXPECT_LE(held, whole / size + (1 << 16));
  }
  ema->swap();
  const std::string text = t.policy->digest();
  ema->swap();
  return text + t.policy->digest();
}

TEST(Ema, OnRanksHasTheBitsOfOneProcessAndTheirShare) {
  const TinyFolder folder;
  const std::string wanted = averaged(folder.model(), {});
  for (const int64_t level : {0, 1, 2, 3}) {
    for (const std::string& text : on_ranks(level == 1 ? 3 : 2, [&](Ranks* ranks) {
           const Fetching fetching(ranks);
           return averaged(folder.model(), fetching.dist(level));
         })) {
      EXPECT_EQ(text, wanted) << level;
    }
  }
}

TEST(Ema, OfAnAdapterOfBf16AndOfAPartHasTheBitsOfOneProcessAtLevel3) {
  const TinyFolder folder;
  PolicyOptions lora, bf16, part;
  lora.lora = AdapterOptions{.rank = 4};
  bf16.dtype = at::kBFloat16;
  part.train = {"*.mlp.*"};
  for (const PolicyOptions& options : {lora, bf16, part}) {
    const std::string wanted = averaged(folder.model(), {}, {}, options);
    for (const std::string& text : on_ranks(2, [&](Ranks* ranks) {
           const Fetching fetching(ranks);
           return averaged(folder.model(), fetching.dist(3), {}, options);
         })) {
      EXPECT_EQ(text, wanted) << options.lora.has_value();
    }
  }
}

ObjectiveResult reward(Scorer& scorer, MicroBatch& micro) {
  const at::Tensor margin = scorer.score(micro.chosen()).sub(scorer.score(micro.rejected()));
  return {{{Unit::kPair, margin.neg()}}, {}};
}

TEST(Ema, OfAScorerHasTheBitsOfOneProcessAtLevel3) {
  const TinyFolder folder;
  const auto run = [&](const DistOptions& dist) {
    const auto scorer = std::make_shared<Scorer>(Policy::open(folder.model(), {.dist = dist}));
    const auto adamw = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{scorer},
                                               AdamWOptions{.lr = 1e-2}, dist);
    const auto ema = Ema::of(adamw, kDecay);
    const auto batch = tiny_batch(tiny_pairs(4), 2);
    StepOptions with;
    with.ranks = dist.ranks;
    for (int64_t k = 0; k < 3; ++k) {
      train_step({{batch.get(), [&](MicroBatch& micro) { return reward(*scorer, micro); }}},
                 adamw.get(), with);
    }
    std::string text;
    for (const bool averaged : {true, false}) {
      ema->swap();
      const at::Tensor head = scorer->parameters().back().master.detach();
      text += fmt::format("{} {} {:a}\n", averaged, scorer->policy()->digest(),
                          head.norm().item().toDouble());
    }
    return text;
  };
  const std::string wanted = run({});
  for (const std::string& text : on_ranks(2, [&](Ranks* ranks) {
         const Fetching fetching(ranks);
         return run(fetching.dist(3));
       })) {
    EXPECT_EQ(text, wanted);
  }
}

// The head's average is exchanged with those of the policy's weights.
TEST(Ema, OfAScorerHoldsItsHeadToo) {
  const TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  const auto scorer = std::make_shared<Scorer>(policy);
  const auto adamw = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{scorer},
                                             AdamWOptions{.lr = 1e-2});
  const auto ema = Ema::of(adamw, kDecay);
  const auto head = [&] { return scorer->parameters().back().master.detach().clone(); };
  at::Tensor wanted = head();
  const auto batch = tiny_batch(tiny_pairs(4), 2);
  for (int64_t k = 0; k < 3; ++k) {
    train_step({{batch.get(), [&](MicroBatch& micro) { return reward(*scorer, micro); }}},
               adamw.get());
    wanted = wanted.mul(kDecay).add(head().mul(1 - kDecay));
  }
  ASSERT_EQ(ema->tensors().size(), scorer->parameters().size());
  const at::Tensor trained = head();
  const at::Tensor before = scorer->score(*batch);
  ema->swap();
  EXPECT_TRUE(at::allclose(head(), wanted, 1e-5, 1e-7));
  EXPECT_FALSE(at::equal(scorer->score(*batch), before));
  ema->swap();
  EXPECT_TRUE(at::equal(head(), trained));
  EXPECT_TRUE(at::equal(scorer->score(*batch), before));
}

TEST(Ema, ACheckpointKeepsIt) {
  const TinyFolder folder;
  const ScratchFolder scratch;
  EXPECT_EQ(averaged(folder.model(), {}, scratch / "one"), averaged(folder.model(), {}));
}

}  // namespace
}  // namespace xrun::ema_test
