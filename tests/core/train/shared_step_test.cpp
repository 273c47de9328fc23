// A step whose micro-batches are shared by ranks has the bits of one process.

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "core/base/interrupt.h"
#include "core/model/weights/init_model.h"
#include "core/train/evaluate.h"
#include "core/train/models/scorer.h"
#include "tests/core/train/step_fixture.h"
#include "tests/forked_ranks.h"

namespace xrun::shared_step_test {
namespace {

// Names and bits of metrics; times differ.
std::string bits_of(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (!name.starts_with("perf/")) text += fmt::format("{} {:a}\n", name, value);
  }
  return text;
}

std::string digest_of(const std::vector<NamedTensor>& tensors) {
  std::string bytes;
  for (const NamedTensor& one : tensors) {
    bytes += one.name;
    bytes.append(static_cast<const char*>(one.tensor.const_data_ptr()), one.tensor.nbytes());
  }
  return fmt::format("{}", std::hash<std::string>()(bytes));
}

BatchInfo info_of(int64_t step) {
  BatchInfo info;
  info.step = step;
  info.seed = 5;
  info.data_key = "";
  return info;
}

// Metrics of some steps, then the weights and moments. Packs hold `per_pack` pairs.
std::string train(const Trained& t, Ranks* ranks, size_t pairs, size_t per_pack, int64_t steps,
                  const BatchInfo& like = {}) {
  std::string text;
  for (int64_t step = 0; step < steps; ++step) {
    BatchInfo info = info_of(step);
    info.fold = like.fold;
    const auto batch = tiny_batch(tiny_pairs(pairs, static_cast<uint64_t>(step)), per_pack, info);
    StepOptions options;
    options.ranks = ranks;
    text += bits_of(train_step({{batch.get(), t.objective()}}, t.adamw.get(), options));
  }
  return text + digest_of(t.policy->tensors()) + digest_of(t.adamw->tensors());
}

TEST(SharedStep, HasTheBitsOfOneProcessOnAnyNumberOfRanks) {
  const TinyFolder folder;
  expect_one_process(4, [&](Ranks* ranks) {
    return train(open_trained(folder, {.dist = {ranks, 0}}), ranks, 9, 2, 3);
  });
}

TEST(SharedStep, RanksWithoutAPackTakePart) {
  const TinyFolder folder;
  expect_one_process(3, [&](Ranks* ranks) {
    return train(open_trained(folder, {.dist = {ranks, 0}}), ranks, 2, 2, 2);
  });
}

TEST(SharedStep, SlowAMixtureOfExpertsHasTheBitsOfOneProcess) {
  const TinyFolder folder;
  init_model(folder.path() / "mixture", {.family = "qwen3_moe",
                                         .hidden = 32,
                                         .experts = 4,
                                         .top_k = 2,
                                         .expert_ffn = 24,
                                         .scale = 0.2});
  expect_one_process(3, [&](Ranks* ranks) {
    Trained t;
    t.policy = Policy::open(folder.path() / "mixture", {.moe_aux = 10.0});
    t.reference = t.policy->reference();
    t.adamw = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{t.policy},
                                      AdamWOptions{.lr = 1e-2}, DistOptions{ranks, 0});
    return train(t, ranks, 7, 2, 2);
  });
}

TEST(SharedStep, SlowPrefixesThatMicroBatchesShareStayOnOneRank) {
  const TinyFolder folder;
  std::vector<TinyPair> pairs = tiny_pairs(7, 5);
  for (size_t i = 0; i < 6; ++i) {
    for (int k = 0; k < 60; ++k) {
      pairs[i].prompt.push_back((7 * k + (i < 4 ? 0 : 3)) % 250);
    }
    std::rotate(pairs[i].prompt.begin(), pairs[i].prompt.end() - 60, pairs[i].prompt.end());
  }
  expect_one_process(3, [&](Ranks* ranks) {
    const Trained t = open_trained(folder, {.dist = {ranks, 0}});
    BatchInfo info = info_of(0);
    info.fold = fold_info(FoldMode::kAlways, 16).fold;
    const auto batch = tiny_batch(pairs, 1, info);
    StepOptions options;
    options.ranks = ranks;
    std::string text;
    for (int step = 0; step < 2; ++step) {
      text += bits_of(train_step({{batch.get(), t.objective()}}, t.adamw.get(), options));
    }
    return text + digest_of(t.policy->tensors());
  });
}

TEST(SharedStep, SlowTermsAndUnitWeightsMatchOneProcess) {
  const TinyFolder folder;
  expect_one_process(3, [&](Ranks* ranks) {
    const Trained t = open_trained(folder, {.dist = {ranks, 0}});
    std::vector<TinyPair> pairs = tiny_pairs(5, 3);
    pairs[1].weight = 0.3f;
    pairs[4].weight = 1.7f;
    const auto a = tiny_batch(pairs, 2, info_of(0)),
               b = tiny_batch(tiny_pairs(4, 9), 1, info_of(0));
    const Objective noisy = [&](MicroBatch& micro) {
      const View all = micro.all();
      ObjectiveResult result;
      const at::Tensor token = t.policy->token_logprob(all);
      result.losses.emplace_back(Unit::kToken, token.neg());
      result.losses.emplace_back(Unit::kPair, t.policy->logprob(micro.chosen()).mul(at::randn({})));
      result.metrics.emplace_back("scalar", token.detach().mean());
      // Only some micro-batches have this one.
      if (micro.index() % 2 == 1) result.metrics.emplace_back("sometimes", token.detach());
      return result;
    };
    StepOptions options;
    options.ranks = ranks;
    const Metrics metrics =
        train_step({{a.get(), t.objective()}, {b.get(), noisy, 0.1}}, t.adamw.get(), options);
    return bits_of(metrics) + digest_of(t.policy->tensors());
  });
}

// Also on the third rank, which has no micro-batch and so no loss.
TEST(SharedStep, AStepWithoutUnitsOfItsLossIsSkippedOnEveryRank) {
  const TinyFolder folder;
  for (const std::string& text : on_ranks(3, [&](Ranks* ranks) -> std::string {
         const Trained t = open_trained(folder, {.dist = {ranks, 0}});
         std::vector<PackedBatch> packs = tiny_packs(tiny_pairs(2), 1);
         for (PackedBatch& pack : packs) {
           pack.chunk.assign(static_cast<size_t>(pack.rows.size()), -1);
         }
         Batch batch(info_of(0), std::move(packs));
         StepOptions options;
         options.ranks = ranks;
         options.lr = 1e-3;
         const Metrics metrics = train_step({{&batch,
                                              [&](MicroBatch& micro) {
                                                const View all = micro.all();
                                                const at::Tensor sums =
                                                    all.chunk_sum(t.policy->token_logprob(all));
                                                return ObjectiveResult{{{Unit::kChunk, sums}}, {}};
                                              }}},
                                            t.adamw.get(), options);
         return fmt::format("{} {}", metrics.front().first, t.policy->update_count());
       })) {
    EXPECT_EQ(text, "skipped 0");
  }
}

TEST(SharedStep, AnObjectiveThatFailsOnOneRankEndsAll) {
  const TinyFolder folder;
  const auto texts = on_ranks(3, [&](Ranks* ranks) -> std::string {
    const Trained t = open_trained(folder, {.dist = {ranks, 0}});
    const auto batch = tiny_batch(tiny_pairs(5), 1, info_of(0));
    StepOptions options;
    options.ranks = ranks;
    try {
      train_step({{batch.get(),
                   [&](MicroBatch& micro) {
                     if (micro.index() == 4) throw Error("dpo.lua:24: oops");
                     return t.objective()(micro);
                   }}},
                 t.adamw.get(), options);
    } catch (const Error& error) {
      EXPECT_TRUE(t.adamw->gradients().empty());
      EXPECT_EQ(t.policy->update_count(), 0);
      return error.what();
    }
    return "no error";
  });
  EXPECT_EQ(texts[0], "rank 1 of 3: dpo.lua:24: oops");
  EXPECT_EQ(texts[1], "dpo.lua:24: oops");
  EXPECT_EQ(texts[2], texts[0]);
}

// The errors of three ranks in a step whose fourth pair is not finite.
std::vector<std::string> non_finite_texts(
    int level, const std::function<Objective(const std::shared_ptr<Policy>&)>& objective) {
  const TinyFolder folder;
  return on_ranks(3, [&](Ranks* ranks) -> std::string {
    const Trained t = open_trained(folder, {.dist = {ranks, level}});
    BatchInfo info = info_of(40);
    info.row_name = [](int64_t row) { return fmt::format("pairs.jsonl:{}", row + 1); };
    const auto batch = tiny_batch(tiny_pairs(5), 2, info);
    StepOptions options;
    options.ranks = ranks;
    try {
      train_step({{batch.get(), objective(t.policy)}}, t.adamw.get(), options);
    } catch (const NonFiniteLoss& error) {
      EXPECT_EQ(error.rows(), std::vector<int64_t>{3});
      EXPECT_EQ(t.policy->update_count(), 0);
      return error.what();
    }
    return "no error";
  });
}

TEST(SharedStep, ANonFiniteGradientNamesRankAndRowOnEveryRank) {
  for (const int level : {0, 1, 2}) {
    const auto texts = non_finite_texts(
        level, [](const std::shared_ptr<Policy>& policy) { return infinite_slope(policy, 3); });
    for (const std::string& text : texts) {
      EXPECT_EQ(text.substr(0, text.find(" although")),
                "rank 1 of 3: pairs.jsonl:4: the gradient of the log-prob of this token is inf")
          << "level " << level;
    }
  }
}

TEST(SharedStep, ANonFiniteLossNamesRankAndRowOnEveryRank) {
  const auto texts = non_finite_texts(0, [](const std::shared_ptr<Policy>& policy) -> Objective {
    return [policy](MicroBatch& micro) {
      const at::Tensor third = micro.chosen().field("pair").ge(3).to(at::kFloat);
      ObjectiveResult result;
      result.losses.emplace_back(Unit::kPair,
                                 policy->logprob(micro.chosen()).div(third.neg().add(1)));
      return result;
    };
  });
  for (const std::string& text : texts) {
    EXPECT_EQ(text,
              "rank 1 of 3: pairs.jsonl:4: the loss of this pair is -inf (step 40, micro-batch 2 "
              "of 3)");
  }
}

TEST(SharedStep, ASignalAtOneRankStopsAllBeforeTheUpdate) {
  const TinyFolder folder;
  const auto texts = on_ranks(3, [&](Ranks* ranks) -> std::string {
    const Trained t = open_trained(folder, {.dist = {ranks, 0}});
    const auto batch = tiny_batch(tiny_pairs(4), 1, info_of(0));
    StepOptions options;
    options.ranks = ranks;
    options.poll = check_interrupt;
    try {
      train_step({{batch.get(),
                   [&](MicroBatch& micro) {
                     // In the last round, after the last poll of this rank.
                     if (micro.index() == 3) request_interrupt(SIGTERM);
                     return t.objective()(micro);
                   }}},
                 t.adamw.get(), options);
    } catch (const Interrupted& stop) {
      return fmt::format("{} {} {}", stop.signal_number(), t.policy->update_count(),
                         interrupt_signal());
    }
    return "no error";
  });
  for (const std::string& text : texts) EXPECT_EQ(text, fmt::format("{} 0 {}", SIGTERM, SIGTERM));
}

TEST(SharedEvaluation, HasTheMetricsOfOneProcess) {
  const TinyFolder folder;
  expect_one_process(3, [&](Ranks* ranks) {
    const Trained t = open_trained(folder);
    t.step();
    int batches = 0;
    EvaluateOptions options;
    options.ranks = ranks;
    options.policy = t.policy.get();
    return bits_of(evaluate(
        [&]() -> std::shared_ptr<Batch> {
          if (batches == 2) return nullptr;
          return tiny_batch(tiny_pairs(5, static_cast<uint64_t>(batches++)), 2, info_of(0));
        },
        t.objective(), options));
  });
}

}  // namespace
}  // namespace xrun::shared_step_test
