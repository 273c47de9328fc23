// Levels at which ranks share moments, gradients and weights have the bits of one process.

#include <gtest/gtest.h>

#include "core/base/hash.h"
#include "core/dist/agreement.h"
#include "core/dist/fetching_ranks.h"
#include "core/model/model.h"
#include "core/model/weights/init_model.h"
#include "core/run/checkpoint.h"
#include "core/train/models/fetched_weights.h"
#include "core/train/models/scorer.h"
#include "tests/core/train/trained.h"
#include "tests/forked_ranks.h"

namespace xrun::ranged_step_test {
namespace {

// The ranks of one process of a test, or none.
struct Fetching {
  explicit Fetching(Ranks* ranks) {
    if (ranks == nullptr) return;
    all = std::make_unique<FetchingRanks>(*ranks);
    all->begin_meetings();
  }
  // A rank that ends may still have to serve another one.
  ~Fetching() {
    if (all) all->barrier("the end of a test");
  }
  DistOptions dist(int64_t level) const { return {all.get(), level}; }
  std::unique_ptr<FetchingRanks> all;
};

// Steps [first, end) of DPO, whose reference is frozen from step 1 on: losses and norms.
std::string steps(const Trained& t, int64_t first, int64_t end, int64_t pairs = 5) {
  std::string text;
  for (int64_t step = first; step < end; ++step) {
    BatchInfo info;
    info.step = step;
    const auto batch =
        tiny_batch(tiny_pairs(static_cast<size_t>(pairs), static_cast<uint64_t>(step)), 2, info);
    StepOptions with;
    with.ranks = t.adamw->dist().ranks;
    const Metrics metrics = train_step({{batch.get(), t.objective()}}, t.adamw.get(), with);
    for (const char* name : {"loss", "grad_norm"}) {
      text += fmt::format("{} {:a}\n", name, value(metrics, name));
    }
  }
  return text;
}

// The same from the beginning, and the digest of the weights.
std::string train(const std::filesystem::path& model, const PolicyOptions& options,
                  int64_t pairs = 5) {
  const Trained t = open_trained(model, options);
  const std::string text = steps(t, 0, 3, pairs);
  return text + t.policy->digest();
}

// Expects that `size` ranks at a level return what one process does.
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

// The first patterns choose from every block, the second no weight of the first block.
TEST(RangedStep, APartOfTheWeightsHasTheBitsOfOneProcess) {
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
    const Trained t = open_trained(folder, {.dist = fetching.dist(3)});
    BatchInfo info;
    const auto batch = tiny_batch(tiny_pairs(6), 1, info);
    StepOptions options;
    options.ranks = fetching.all.get();
    try {
      train_step({{batch.get(),
                   [&](MicroBatch& micro) {
                     if (micro.index() == 1) throw Error("dpo.lua:24: oops");
                     return t.objective()(micro);
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
  expect_level(3, 3, [&](const DistOptions& dist) {
    const Trained t = open_trained(folder.model(), {.dist = dist});
    steps(t, 0, 1);
    const auto out = folder.path() / (dist.ranks == nullptr ? "one" : "three");
    // The others serve its fetches while they wait.
    on_first_rank(dist.ranks, "an export", [&] { t.policy->export_to(out); });
    return hash_file(out / "model.safetensors");
  });
}

// Checkpoints of n ranks at one level continue on m ranks at another.
void expect_continues(const std::vector<std::string>& train) {
  const TinyFolder folder;
  const auto saved = [](const Trained& t) {
    return SavedObjects{{"policy", t.policy}, {"adamw", t.adamw}};
  };
  const auto run = [&](int64_t n, int64_t level, int64_t first, int64_t end) {
    return on_ranks(n,
                    [&](Ranks* ranks) {
                      const Fetching fetching(ranks);
                      const Trained t = open_trained(
                          folder.model(), {.train = train, .dist = fetching.dist(level)});
                      CheckpointStore store(folder.path() / "checkpoints", 2, fetching.all.get());
                      if (first > 0) store.load_latest()->restore(saved(t));
                      const std::string text = steps(t, first, end);
                      store.save(end, Json::object(), saved(t));
                      return text + t.policy->digest();
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
  expect_continues({});
  expect_continues({"*.mlp.*"});
}

TEST(RangedStep, AValueHeadIsRefusedAtLevel3BeforeWeightsLoad) {
  const TinyFolder folder;
  const auto texts = on_ranks(2, [&](Ranks* ranks) -> std::string {
    const Fetching fetching(ranks);
    const auto policy = Policy::open(folder.model(), {.dist = fetching.dist(3)});
    try {
      AdamW({std::make_shared<Scorer>(policy)}, AdamWOptions{.lr = 1e-2}, fetching.dist(3));
    } catch (const Error& error) {
      return fmt::format("{}{}", error.what(), policy->loaded() ? ", after loading" : "");
    }
    return "no error";
  });
  for (const std::string& text : texts) {
    EXPECT_EQ(text, "dist.level = 3 trains no value head; set dist.level = 2");
  }
}

// A rank holds its share of the trained weights.
void expect_share(const std::vector<std::string>& train) {
  const TinyFolder folder;
  init_model(folder.path() / "deep", {.layers = 12, .hidden = 128, .vocab = 300});
  const auto texts = on_ranks(4, [&](Ranks* ranks) -> std::string {
    const Fetching fetching(ranks);
    const auto policy =
        Policy::open(folder.path() / "deep", {.train = train, .dist = fetching.dist(3)});
    Model& model = policy->model();
    int64_t held = 0, all = 0;
    for (size_t i = 0; i < model.trained_parameters().size(); ++i) {
      held += model.ranged_weights()->range(i).held.numel();
      all += model.trained_parameters()[i].master.numel();
    }
    EXPECT_EQ(model.parameters()[0].master.storage().nbytes(), sizeof(float));
    return fmt::format("{} {}", held, all);
  });
  int64_t sum = 0, all = 0;
  for (const std::string& text : texts) {
    const int64_t held = std::stoll(text);
    all = std::stoll(text.substr(text.find(' ')));
    EXPECT_LE(static_cast<double>(held), 0.25 * static_cast<double>(all) + (1 << 16));
    sum += held;
  }
  EXPECT_EQ(sum, all);
}

TEST(FetchedWeights, ARankHoldsItsShareAndOneBlockMore) {
  expect_share({});
  expect_share({"*.mlp.*"});
}

}  // namespace
}  // namespace xrun::ranged_step_test
