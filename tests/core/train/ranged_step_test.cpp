// Ranks that share moments, gradients and weights train to the bits of one process, at every level.

#include <ATen/ops/log_sigmoid.h>
#include <gtest/gtest.h>

#include "core/base/hash.h"
#include "core/dist/agreement.h"
#include "core/model/model.h"
#include "core/model/weights/init_model.h"
#include "core/run/checkpoint.h"
#include "core/train/models/scorer.h"
#include "tests/core/train/fetching.h"
#include "tests/core/train/trained.h"
#include "tests/forked_ranks.h"

namespace xrun::ranged_step_test {
namespace {

// An optimizer with its objective, the objects of a checkpoint, and the weights as text.
struct RangedTraining {
  std::shared_ptr<AdamW> adamw;
  Objective objective;
  SavedObjects saved;
  std::function<std::string()> weights;
};

using OpenTraining =
    std::function<RangedTraining(const std::filesystem::path& model, const PolicyOptions& options)>;

// DPO against the initial weights.
RangedTraining open_dpo(const std::filesystem::path& model, const PolicyOptions& options) {
  const Trained t = open_trained(model, options);
  return {t.adamw, t.objective(), {{"policy", t.policy}, {"adamw", t.adamw}}, [policy = t.policy] {
            return policy->digest();
          }};
}

std::shared_ptr<AdamW> adamw_of(std::vector<std::shared_ptr<Trainable>> trainables,
                                const DistOptions& dist) {
  return std::make_shared<AdamW>(std::move(trainables), AdamWOptions{.lr = 1e-2}, dist);
}

// One loss per pair: -log sigmoid(margin).
ObjectiveResult pair_loss(const at::Tensor& margin) {
  return {{{Unit::kPair, at::log_sigmoid(margin).neg()}}, {}};
}

// A value head, as in recipes/reward.lua.
RangedTraining open_reward(const std::filesystem::path& model, const PolicyOptions& options) {
  const auto scorer = std::make_shared<Scorer>(Policy::open(model, options));
  const auto adamw = adamw_of({scorer}, options.dist);
  return {adamw,
          [scorer](MicroBatch& micro) {
            return pair_loss(scorer->score(micro.chosen()).sub(scorer->score(micro.rejected())));
          },
          {{"scorer", scorer}, {"adamw", adamw}},
          [scorer] {
            const at::Tensor head = scorer->parameters().back().master.detach();
            const auto* const bytes = static_cast<const char*>(head.const_data_ptr());
            return scorer->policy()->digest() + hash_hex({bytes, head.nbytes()});
          }};
}

// Two policies under one optimizer.
RangedTraining open_two(const std::filesystem::path& model, const PolicyOptions& options) {
  const auto one = Policy::open(model, options), two = Policy::open(model, options);
  const auto adamw = adamw_of({one, two}, options.dist);
  return {adamw,
          [one, two](MicroBatch& micro) {
            return pair_loss(one->logprob(micro.chosen()).sub(two->logprob(micro.rejected())));
          },
          {{"one", one}, {"two", two}, {"adamw", adamw}},
          [one, two] { return one->digest() + two->digest(); }};
}

// Trains steps [first, end) and returns their losses and gradient norms, exact in hexadecimal.
std::string steps(const RangedTraining& t, int64_t first, int64_t end, int64_t pairs = 5) {
  std::string text;
  for (int64_t step = first; step < end; ++step) {
    BatchInfo info;
    info.step = step;
    const auto batch =
        tiny_batch(tiny_pairs(static_cast<size_t>(pairs), static_cast<uint64_t>(step)), 2, info);
    StepOptions with;
    with.ranks = t.adamw->dist().ranks;
    const Metrics metrics = train_step({{batch.get(), t.objective}}, t.adamw.get(), with);
    for (const char* name : {"loss", "grad_norm"}) {
      text += fmt::format("{} {:a}\n", name, value(metrics, name));
    }
  }
  return text;
}

// Trains the first three steps and returns their numbers with the digest of the weights.
std::string train(const std::filesystem::path& model, const PolicyOptions& options,
                  int64_t pairs = 5, const OpenTraining& open = open_dpo) {
  const RangedTraining t = open(model, options);
  const std::string text = steps(t, 0, 3, pairs);
  return text + t.weights();
}

// Expects that `work` returns the same text on each of `size` ranks at a level as in one process.
void expect_level(int64_t size, int64_t level,
                  const std::function<std::string(const DistOptions&)>& work) {
  const auto run = [&](Ranks* ranks) {
    const Fetching fetching(ranks);
    return work(fetching.dist(level));
  };
  const std::string wanted = on_ranks(0, run).front();
  for (const std::string& text : on_ranks(size, run)) EXPECT_EQ(text, wanted) << level;
}

TEST(RangedStep, EveryLevelHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  for (const int64_t level : {0, 1, 2, 3}) {
    expect_level(level == 2 ? 2 : 3, level,
                 [&](const DistOptions& dist) { return train(folder.model(), {.dist = dist}); });
  }
}

TEST(RangedStep, RanksWithoutWorkServeTheOthers) {
  const TinyFolder folder;
  expect_level(4, 3,
               [&](const DistOptions& dist) { return train(folder.model(), {.dist = dist}, 3); });
}

TEST(RangedStep, Bf16HasTheBitsOfOneProcess) {
  const TinyFolder folder;
  expect_level(3, 3, [&](const DistOptions& dist) {
    return train(folder.model(), {.dtype = at::kBFloat16, .dist = dist});
  });
}

// The patterns of `mlp` choose weights of every block, those of `last` none of the first block.
TEST(RangedStep, TrainingSomeOfTheWeightsHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  const std::vector<std::string> mlp = {"*.mlp.*", "*norm*"}, last = {"model.layers.1.*"};
  for (const PolicyOptions& options : {PolicyOptions{.train = mlp}, PolicyOptions{.train = last},
                                       PolicyOptions{.dtype = at::kBFloat16, .train = mlp}}) {
    expect_level(3, 3, [&](const DistOptions& dist) {
      PolicyOptions with = options;
      with.dist = dist;
      return train(folder.model(), with);
    });
  }
}

TEST(RangedStep, AValueHeadHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  for (const PolicyOptions& options : {PolicyOptions{}, PolicyOptions{.train = {"*.mlp.*"}}}) {
    expect_level(3, 3, [&](const DistOptions& dist) {
      PolicyOptions with = options;
      with.dist = dist;
      return train(folder.model(), with, 5, open_reward);
    });
  }
}

TEST(RangedStep, TwoPoliciesUnderOneOptimizerHaveTheBitsOfOneProcess) {
  const TinyFolder folder;
  expect_level(3, 3, [&](const DistOptions& dist) {
    return train(folder.model(), {.dist = dist}, 5, open_two);
  });
}

TEST(RangedStep, AnAdapterOverABaseInRangesHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  expect_level(2, 3, [&](const DistOptions& dist) {
    return train(folder.model(), {.lora = AdapterOptions{.rank = 4}, .dist = dist});
  });
}

TEST(RangedStep, AMixtureOfExpertsHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  const auto mixture = folder.path() / "mixture";
  init_model(mixture, {.family = "qwen3_moe",
                       .hidden = 32,
                       .experts = 4,
                       .top_k = 2,
                       .expert_ffn = 24,
                       .scale = 0.2});
  expect_level(2, 3, [&](const DistOptions& dist) {
    return train(mixture, {.moe_aux = 10.0, .dist = dist});
  });
}

TEST(RangedStep, AFailureOnOneRankWhileOthersFetchEndsAll) {
  const TinyFolder folder;
  const auto texts = on_ranks(3, [&](Ranks* ranks) -> std::string {
    const Fetching fetching(ranks);
    const RangedTraining t = open_dpo(folder.model(), {.dist = fetching.dist(3)});
    BatchInfo info;
    const auto batch = tiny_batch(tiny_pairs(6), 1, info);
    StepOptions options;
    options.ranks = fetching.all.get();
    try {
      train_step({{batch.get(),
                   [&](MicroBatch& micro) {
                     if (micro.index() == 1) throw Error("dpo.lua:24: oops");
                     return t.objective(micro);
                   }}},
                 t.adamw.get(), options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  });
  EXPECT_EQ(texts[0], "rank 1 of 3: dpo.lua:24: oops");
  EXPECT_EQ(texts[1], "dpo.lua:24: oops");
  EXPECT_EQ(texts[2], texts[0]);
}

TEST(RangedStep, AnExportHasTheBytesOfOneProcess) {
  const TinyFolder folder;
  const auto expect_bytes = [&](const OpenTraining& open, const char* kind, const auto& write) {
    expect_level(3, 3, [&](const DistOptions& dist) {
      const RangedTraining t = open(folder.model(), {.dist = dist});
      steps(t, 0, 2);
      const auto out =
          folder.path() / fmt::format("{}_of_{}", kind, dist.ranks == nullptr ? "one" : "three");
      // The other ranks serve the fetches of the first while they wait.
      on_first_rank(dist.ranks, "an export", [&] { write(*t.adamw->trainables().front(), out); });
      return hash_file(out / "model.safetensors");
    });
  };
  expect_bytes(open_dpo, "model", [](Trainable& policy, const std::filesystem::path& out) {
    dynamic_cast<Policy&>(policy).export_to(out);
  });
  expect_bytes(open_reward, "classifier", [](Trainable& scorer, const std::filesystem::path& out) {
    dynamic_cast<Scorer&>(scorer).export_to(out);
  });
}

// Expects that a checkpoint written by n ranks at one level continues on m ranks at another.
void expect_continues(const OpenTraining& open, const std::vector<std::string>& train = {}) {
  const TinyFolder folder;
  const auto run = [&](int64_t n, int64_t level, int64_t first, int64_t end) {
    return on_ranks(n,
                    [&](Ranks* ranks) {
                      const Fetching fetching(ranks);
                      const RangedTraining t =
                          open(folder.model(), {.train = train, .dist = fetching.dist(level)});
                      CheckpointStore store(folder.path() / "checkpoints", 2, fetching.all.get());
                      if (first > 0) store.load_latest()->restore(t.saved);
                      const std::string text = steps(t, first, end);
                      store.save(end, Json::object(), t.saved);
                      return text + t.weights();
                    })
        .front();
  };
  run(0, 0, 0, 1);
  run(0, 0, 1, 2);
  const std::string wanted = run(0, 0, 2, 3);
  std::filesystem::remove_all(folder.path() / "checkpoints");
  run(3, 3, 0, 1);
  run(2, 1, 1, 2);
  EXPECT_EQ(run(4, 3, 2, 3), wanted);
}

TEST(RangedStep, AnyNumberOfRanksAtAnyLevelContinuesFromACheckpoint) {
  expect_continues(open_dpo);
  expect_continues(open_dpo, {"*.mlp.*"});
  expect_continues(open_reward);
}

}  // namespace
}  // namespace xrun::ranged_step_test
