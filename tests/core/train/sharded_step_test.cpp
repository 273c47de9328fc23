// Levels at which ranks share moments, gradients and weights have the bits of one process.

#include <gtest/gtest.h>

#include "core/dist/fetching_ranks.h"
#include "core/model/model.h"
#include "core/model/weights/init_model.h"
#include "core/train/sharded_weights.h"
#include "tests/core/train/trained.h"
#include "tests/forked_ranks.h"

namespace xrun::sharded_step_test {
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

// Losses and norms of some steps of DPO, whose reference is frozen from the second on, then the
// digest of the weights.
std::string train(const std::filesystem::path& model, const PolicyOptions& options,
                  int64_t pairs = 5) {
  Trained t;
  t.policy = Policy::open(model, options);
  t.reference = t.policy->reference();
  t.adamw = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{t.policy},
                                    AdamWOptions{.lr = 1e-2}, options.dist);
  std::string text;
  for (int64_t step = 0; step < 3; ++step) {
    BatchInfo info;
    info.step = step;
    const auto batch =
        tiny_batch(tiny_pairs(static_cast<size_t>(pairs), static_cast<uint64_t>(step)), 2, info);
    StepOptions with;
    with.ranks = options.dist.ranks;
    const Metrics metrics = train_step({{batch.get(), t.objective()}}, t.adamw.get(), with);
    for (const char* name : {"loss", "grad_norm"}) {
      text += fmt::format("{} {:a}\n", name, value(metrics, name));
    }
  }
  return text + t.policy->digest();
}

TEST(ShardedStep, EveryLevelHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  for (const int64_t level : {0, 1, 2, 3}) {
    expect_one_process(3, [&](Ranks* ranks) {
      const Fetching fetching(ranks);
      return train(folder.model(), {.dist = fetching.dist(level)});
    });
  }
}

TEST(ShardedStep, RanksWithoutWorkServeTheOthers) {
  const TinyFolder folder;
  expect_one_process(4, [&](Ranks* ranks) {
    const Fetching fetching(ranks);
    return train(folder.model(), {.dist = fetching.dist(3)}, 3);
  });
}

TEST(ShardedStep, Bf16HasTheBitsOfOneProcess) {
  const TinyFolder folder;
  expect_one_process(3, [&](Ranks* ranks) {
    const Fetching fetching(ranks);
    return train(folder.model(), {.dtype = at::kBFloat16, .dist = fetching.dist(3)});
  });
}

TEST(ShardedStep, AnAdapterOverAShardedBaseHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  expect_one_process(3, [&](Ranks* ranks) {
    const Fetching fetching(ranks);
    return train(folder.model(), {.lora = AdapterOptions{.rank = 4}, .dist = fetching.dist(3)});
  });
}

TEST(ShardedStep, AMixtureOfExpertsHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  const auto mixture = folder.path() / "mixture";
  init_model(mixture, {.family = "qwen3_moe",
                       .hidden = 32,
                       .experts = 4,
                       .top_k = 2,
                       .expert_ffn = 24,
                       .scale = 0.2});
  expect_one_process(2, [&](Ranks* ranks) {
    const Fetching fetching(ranks);
    return train(mixture, {.moe_aux = 10.0, .dist = fetching.dist(3)});
  });
}

TEST(ShardedStep, AFailureOnOneRankWhileOthersFetchEndsAll) {
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

TEST(ShardedWeights, ARankHoldsItsShareAndOneBlockMore) {
  const TinyFolder folder;
  init_model(folder.path() / "deep", {.layers = 12, .hidden = 128, .vocab = 300});
  const auto texts = on_ranks(4, [&](Ranks* ranks) -> std::string {
    const Fetching fetching(ranks);
    const auto policy = Policy::open(folder.path() / "deep", {.dist = fetching.dist(3)});
    Model& model = policy->model();
    int64_t held = 0, all = 0;
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      held += model.shards()->range(i).held.numel();
      all += model.parameters()[i].master.numel();
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

}  // namespace
}  // namespace xrun::sharded_step_test
