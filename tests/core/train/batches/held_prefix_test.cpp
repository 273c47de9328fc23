// A prefix that several micro-batches share is computed once, with the log-probs and gradients of
// the separate sequences.

#include "core/train/batches/held_prefix.h"

#include <ATen/ops/cat.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/philox.h"
#include "core/model/cost/memory_plan.h"
#include "core/model/flops.h"
#include "core/model/model.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/scratch.h"
#include "core/model/weights/init_model.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/models/scorer.h"
#include "core/train/step.h"
#include "tests/core/train/step_fixture.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::held_prefix_test {

namespace {

constexpr int64_t kMinRun = 16;  // longer than the prefixes that the pairs share by chance

std::vector<int32_t> random_ids(uint64_t seed, size_t count) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(philox_u64(seed, 97, 0, i) % 250));
  }
  return ids;
}

// Four pairs of a prompt that ends inside a second block of keys, whose answers all begin with 20
// trained tokens; two of another prompt; one alone.
std::vector<TinyPair> grouped_pairs() {
  std::vector<TinyPair> pairs = tiny_pairs(7, 5);
  const std::vector<int32_t> begun = random_ids(3, 20);
  for (size_t i = 0; i < 6; ++i) {
    pairs[i].prompt = random_ids(i < 4 ? 1 : 2, i < 4 ? 70 : 40);
    if (i >= 4) continue;
    for (std::vector<int32_t>* side : {&pairs[i].chosen, &pairs[i].rejected}) {
      side->insert(side->begin(), begun.begin(), begun.end());
    }
  }
  return pairs;
}

// A micro-batch for each pair, or all pairs in one.
std::shared_ptr<Batch> split(FoldMode mode) {
  return tiny_batch(grouped_pairs(), 1, fold_info(mode, kMinRun));
}
std::shared_ptr<Batch> unsplit() {
  return tiny_batch(grouped_pairs(), 7, fold_info(FoldMode::kAlways, kMinRun));
}

// Results of one step of a newly opened policy, before its update.
struct PrefixStep {
  at::Tensor logprob;  // [R] of all loss rows
  std::vector<at::Tensor> gradients;
  double flops = 0;
};

using MakeObjective = std::function<Objective(const Trained&)>;

Objective dpo_of(const Trained& t) { return t.objective(); }

// One loss per trained token, those of the shared beginning of the answers included.
Objective nll_of(const Trained& t) {
  return [policy = t.policy](MicroBatch& micro) {
    return ObjectiveResult{{{Unit::kToken, policy->token_logprob(micro.all()).neg()}}, {}};
  };
}

PrefixStep outcome(const Trained& t, Batch& batch, const MakeObjective& make) {
  t.policy->model();
  const Objective objective = make(t);
  PrefixStep result;
  std::vector<at::Tensor> logprobs;
  StepOptions step;
  step.read_gradients = [&] {
    for (const NamedTensor& one : t.adamw->gradients()) {
      result.gradients.push_back(one.tensor.clone());
    }
  };
  const double before = counted_flops();
  train_step({{&batch,
               [&](MicroBatch& micro) {
                 logprobs.push_back(t.policy->token_logprob(micro.all()).detach().clone());
                 return objective(micro);
               }}},
             t.adamw.get(), step);
  result.flops = counted_flops() - before;
  result.logprob = at::cat(logprobs);
  return result;
}

PrefixStep outcome(const TinyFolder& folder, const PolicyOptions& options, Batch& batch,
                   const MakeObjective& make) {
  return outcome(open_trained(folder, options), batch, make);
}

class HeldPrefixes : public StepTest {
 protected:
  PrefixStep of(const std::shared_ptr<Batch>& batch, const MakeObjective& make = dpo_of,
                const PolicyOptions& options = {}) {
    return outcome(folder_, options, *batch, make);
  }
};

void expect_bits(const at::Tensor& got, const at::Tensor& want) {
  EXPECT_TRUE(got.equal(want)) << got.sub(want).abs().max().item<double>();
}

}  // namespace

TEST_F(HeldPrefixes, AreComputedOnceForConsecutiveMicroBatches) {
  const auto batch = split(FoldMode::kAlways);
  const auto prefixes = held_prefixes(batch->micros());
  ASSERT_EQ(prefixes.size(), 2U);
  EXPECT_EQ(prefixes[0]->begin(), 0U);
  EXPECT_EQ(prefixes[0]->end(), 4U);
  EXPECT_EQ(prefixes[0]->prefix().size(), 90);  // 20 tokens of the answers among them
  EXPECT_EQ(prefixes[1]->begin(), 4U);
  EXPECT_EQ(prefixes[1]->end(), 6U);
  EXPECT_EQ(prefixes[1]->prefix().size(), 40);
  Model& model = policy_->model();
  int64_t separate = 0;
  for (const auto& micro : batch->micros()) separate += micro->computed(model).token_count();
  EXPECT_EQ(computed_tokens(batch->micros(), model), separate - 3 * 90 - 40);
  EXPECT_EQ(computed_tokens(split(FoldMode::kNever)->micros(), model), batch->token_count());
}

TEST_F(HeldPrefixes, LogprobsHaveTheBitsOfTheUnfoldedStepAndOfTheUnsplitFold) {
  for (const MakeObjective& make : {MakeObjective(dpo_of), MakeObjective(nll_of)}) {
    const PrefixStep held = of(split(FoldMode::kAlways), make);
    expect_bits(held.logprob, of(split(FoldMode::kNever), make).logprob);
    expect_bits(held.logprob, of(unsplit(), make).logprob);
  }
}

TEST_F(HeldPrefixes, SlowGradientsMatchTheUnfoldedStep) {
  for (const MakeObjective& make : {MakeObjective(dpo_of), MakeObjective(nll_of)}) {
    for (const bool recompute : {false, true}) {
      for (const bool lora : {false, true}) {
        SCOPED_TRACE(fmt::format("recompute {}, lora {}", recompute, lora));
        PolicyOptions options;
        options.recompute = recompute;
        if (lora) options.lora = AdapterOptions{};
        const PrefixStep whole = of(split(FoldMode::kNever), make, options);
        const PrefixStep held = of(split(FoldMode::kAlways), make, options);
        EXPECT_LT(distance(held.gradients, whole.gradients), 1e-5);
        expect_bits(held.logprob, whole.logprob);
        EXPECT_LT(held.flops, 0.5 * whole.flops);
        // The head meets a trained token of the prefix once in every micro-batch.
        EXPECT_LT(held.flops, 1.1 * of(unsplit(), make, options).flops);
      }
    }
  }
}

TEST_F(HeldPrefixes, APartOfTheWeightsHasTheGradientsOfTheUnfoldedStep) {
  for (const bool recompute : {false, true}) {
    for (const char* pattern : {"*.mlp.*", "*k_proj*"}) {
      SCOPED_TRACE(fmt::format("recompute {}, train {}", recompute, pattern));
      PolicyOptions options;
      options.recompute = recompute;
      options.train = {pattern};
      const PrefixStep whole = of(split(FoldMode::kNever), nll_of, options);
      const PrefixStep held = of(split(FoldMode::kAlways), nll_of, options);
      EXPECT_LT(distance(held.gradients, whole.gradients), 1e-5);
      expect_bits(held.logprob, whole.logprob);
    }
  }
}

// GPT-2's keys are views of one product with the queries, and its positions are learned.
TEST_F(HeldPrefixes, OfGpt2HaveTheBitsOfTheUnfoldedStep) {
  const TinyFolder gpt2;
  init_model(gpt2.path() / "model_0", {.family = "gpt2",
                                       .layers = 2,
                                       .hidden = 32,
                                       .heads = 4,
                                       .kv_heads = 4,
                                       .ffn = 64,
                                       .scale = 0.2});
  const PrefixStep held = outcome(gpt2, {}, *split(FoldMode::kAlways), nll_of);
  const PrefixStep whole = outcome(gpt2, {}, *split(FoldMode::kNever), nll_of);
  expect_bits(held.logprob, whole.logprob);
  EXPECT_LT(distance(held.gradients, whole.gradients), 1e-5);
}

// Windows count positions, those of a held prefix too; some of these layers see a part of it only.
// The prefix is grouped heads' keys, with and without norms of them.
TEST_F(HeldPrefixes, OfModelsWithWindowsAndGroupedHeadsHaveTheBitsOfTheUnfoldedStep) {
  for (const char* name : {"qwen2_window", "tied_gqa", "qwen3"}) {
    SCOPED_TRACE(name);
    std::vector<TinyPair> pairs = grouped_pairs();
    for (TinyPair& pair : pairs) {
      for (std::vector<int32_t>* ids : {&pair.prompt, &pair.chosen, &pair.rejected}) {
        for (int32_t& id : *ids) id %= 131;  // the vocabulary of the golden models
      }
    }
    const auto of = [&](FoldMode mode) {
      const auto policy = Policy::open(source_path("tests/golden/models/") + name);
      const Trained t{policy, nullptr,
                      std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{policy},
                                              AdamWOptions{.lr = 1e-3})};
      const auto batch = tiny_batch(pairs, 1, fold_info(mode, kMinRun));
      if (mode == FoldMode::kAlways) {
        EXPECT_TRUE(held_prefixes(batch->micros()).at(0)->serves(policy->model()));
      }
      return outcome(t, *batch, nll_of);
    };
    const PrefixStep held = of(FoldMode::kAlways), whole = of(FoldMode::kNever);
    expect_bits(held.logprob, whole.logprob);
    EXPECT_LT(distance(held.gradients, whole.gradients), 1e-5);
    EXPECT_LT(held.flops, 0.7 * whole.flops);
  }
}

// The first sequence of a micro-batch is the prefix itself, and the last micro-batch has one that
// ends inside what the others share.
TEST_F(HeldPrefixes, SequencesMayEndWithAndInsideThePrefix) {
  const std::vector<int32_t> begun = random_ids(3, 20);
  for (const size_t inside : {size_t{20}, size_t{12}}) {
    SCOPED_TRACE(inside);
    std::vector<TinyPair> pairs = grouped_pairs();
    pairs.resize(4);
    pairs[1].chosen = begun;
    pairs[3].rejected.assign(begun.begin(), begun.begin() + static_cast<int64_t>(inside));
    const auto step = [&](FoldMode mode) { return tiny_batch(pairs, 1, fold_info(mode, kMinRun)); };
    const auto batch = step(FoldMode::kAlways);
    ASSERT_EQ(held_prefixes(batch->micros()).size(), 1U);
    EXPECT_EQ(held_prefixes(batch->micros())[0]->prefix().size(),
              70 + static_cast<int64_t>(inside));
    for (const MakeObjective& make : {MakeObjective(dpo_of), MakeObjective(nll_of)}) {
      const PrefixStep held = of(batch, make), whole = of(step(FoldMode::kNever), make);
      expect_bits(held.logprob, whole.logprob);
      EXPECT_LT(distance(held.gradients, whole.gradients), 1e-5);
    }
  }
}

// Dynamic RoPE: beyond 64 tokens every length has its own frequencies, so a prefix serves sequences
// of one length, with the frequencies of that length.
TEST_F(HeldPrefixes, HaveTheFrequenciesOfTheirSequences) {
  const TinyFolder dynamic;
  const std::filesystem::path config = dynamic.model() / "config.json";
  Json json = read_json(config.string());
  json.set("max_position_embeddings", 64);
  json.set("rope_scaling", Json(Json::Object{{"rope_type", "dynamic"}, {"factor", 2.0}}));
  write_file_atomic(config, dump_json(json));
  std::vector<TinyPair> pairs = grouped_pairs();
  pairs.resize(4);
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].chosen = random_ids(10 + i, 40);
    pairs[i].rejected = random_ids(20 + i, 40);
  }
  const auto outcomes = [&] {
    const auto step = [&](FoldMode mode) {
      return outcome(dynamic, {}, *tiny_batch(pairs, 1, fold_info(mode, kMinRun)), nll_of);
    };
    const PrefixStep whole = step(FoldMode::kNever), held = step(FoldMode::kAlways);
    expect_bits(held.logprob, whole.logprob);
    EXPECT_LT(distance(held.gradients, whole.gradients), 1e-5);
    return held.flops / whole.flops;
  };
  EXPECT_LT(outcomes(), 0.6);
  pairs[2].rejected.push_back(1);
  EXPECT_GT(outcomes(), 0.6);
}

TEST_F(HeldPrefixes, AScorerReadsTheLastTokenOfEverySequence) {
  const auto scorer = std::make_shared<Scorer>(policy_);
  scorer->parameters().back().master.detach().fill_(0.1);
  AdamW adamw({scorer}, {.lr = 1e-2});
  const auto scores = [&](FoldMode mode) {
    std::vector<at::Tensor> seen;
    StepOptions options;
    options.read_gradients = [] {};
    const auto batch = split(mode);
    train_step({{batch.get(),
                 [&](MicroBatch& micro) {
                   const at::Tensor score = scorer->score(micro.all());
                   seen.push_back(score.detach().clone());
                   return ObjectiveResult{{{Unit::kSequence, score.square()}}, {}};
                 }}},
               &adamw, options);
    return at::cat(seen);
  };
  expect_bits(scores(FoldMode::kAlways), scores(FoldMode::kNever));
}

TEST_F(HeldPrefixes, Bf16DiffersByRoundingAlone) {
  PolicyOptions options;
  options.dtype = at::kBFloat16;
  const PrefixStep held = of(split(FoldMode::kAlways), nll_of, options);
  const PrefixStep whole = of(split(FoldMode::kNever), nll_of, options);
  EXPECT_LT(held.logprob.sub(whole.logprob).abs().mean().item<double>(), 2e-2);
  EXPECT_LT(distance(held.gradients, whole.gradients), 2e-2);
}

TEST_F(HeldPrefixes, StepsRepeatBitForBit) {
  const auto weights_after = [&](int64_t steps) {
    const Trained t = open_trained(folder_);
    for (int64_t k = 0; k < steps; ++k) {
      train_step({{split(FoldMode::kAuto).get(), t.objective()}}, t.adamw.get());
    }
    return t.policy->tensors();
  };
  const auto first = weights_after(3), second = weights_after(3);
  for (size_t i = 0; i < first.size(); ++i) expect_bits(first[i].tensor, second[i].tensor);
}

TEST_F(HeldPrefixes, AnObjectiveThatThrowsLeavesNothingBehind) {
  install_memory_count();
  const auto batch = split(FoldMode::kAlways);
  const auto want = gradients(*batch, dpo_objective());
  const int64_t before = memory_count().held;
  const Objective inner = dpo_objective();
  const Objective failing = [&](MicroBatch& micro) {
    ObjectiveResult result = inner(micro);
    XRUN_CHECK(micro.index() != 1, "the second micro-batch fails");
    return result;
  };
  EXPECT_EQ(message_of<Error>([&] {
              train_step({{batch.get(), failing}}, adamw_.get());
            }),
            "the second micro-batch fails");
  EXPECT_LT(std::llabs(memory_count().held - before), 4096);
  const auto got = gradients(*batch, dpo_objective());
  for (size_t i = 0; i < want.size(); ++i) expect_bits(got[i], want[i]);
}

TEST_F(HeldPrefixes, ServeTrainedModelsWithoutDropoutOrExperts) {
  const HeldPrefix prefix(SharedPrefix{});
  EXPECT_TRUE(prefix.serves(policy_->model()));
  EXPECT_FALSE(prefix.serves(*policy_->model().clone(/*trainable=*/false)));
  PolicyOptions dropout;
  dropout.lora = AdapterOptions{.dropout = 0.1};
  EXPECT_FALSE(prefix.serves(open_trained(folder_, dropout).policy->model()));
  init_model(folder_.path() / "experts",
             {.family = "qwen3_moe", .hidden = 32, .experts = 4, .top_k = 2, .expert_ffn = 24});
  EXPECT_FALSE(prefix.serves(Policy::open(folder_.path() / "experts")->model()));
}

// 32 answers of 64 tokens to a prompt of 1,024, in one micro-batch and in 16.
TEST_F(HeldPrefixes, SlowHalveThePeakMemoryOfAGroupAsPlanned) {
  install_memory_count();
  free_scratch();
  const int64_t before = memory_count().held;
  InitOptions init = init_preset("tiny");
  init.vocab = 500;
  init_model(folder_.path() / "wide", init);
  std::vector<TinyPair> pairs(16);
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = {random_ids(1, 1024), random_ids(10 + i, 64), random_ids(30 + i, 64)};
  }
  const auto policy = Policy::open(folder_.path() / "wide");
  const Trained t{policy, nullptr,
                  std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{policy},
                                          AdamWOptions{.lr = 1e-3})};
  const auto peak = [&](size_t per_pack) {
    const auto batch = tiny_batch(pairs, per_pack, fold_info(FoldMode::kAlways, kMinRun));
    train_step({{batch.get(), nll_of(t)}}, t.adamw.get());
    reset_memory_peak();
    train_step({{batch.get(), nll_of(t)}}, t.adamw.get());
    return static_cast<double>(memory_count().peak - before);
  };
  const double held = peak(1), whole = peak(16);
  EXPECT_LT(held, 0.5 * whole);
  MemoryShape shape;
  shape.tokens = shape.loss_rows = 128;
  shape.several = true;
  shape.prefix_tokens = 1024;
  const auto plan = memory_plan(policy->model().config(), shape);
  EXPECT_LT(std::fabs(static_cast<double>(total_bytes(plan)) / held - 1), 0.15)
      << fmt::format("measured {:.1f} of {:.1f} MB, planned ", held / 1e6, whole / 1e6)
      << describe_plan(plan);
}

// 24 blocks hold more keys, values and their gradients than one block needs to run again.
TEST_F(HeldPrefixes, SlowOfADeepModelHaveTheGradientsOfTheirKeysInThePlan) {
  install_memory_count();
  free_scratch();
  const int64_t before = memory_count().held;
  init_model(folder_.path() / "deep",
             {.layers = 24, .hidden = 64, .heads = 4, .kv_heads = 4, .ffn = 64, .vocab = 500});
  std::vector<TinyPair> pairs(4);
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = {random_ids(1, 1024), random_ids(10 + i, 8), random_ids(30 + i, 8)};
  }
  const auto policy = Policy::open(folder_.path() / "deep");
  const Trained t{policy, nullptr,
                  std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{policy},
                                          AdamWOptions{.lr = 1e-3})};
  const auto batch = tiny_batch(pairs, 1, fold_info(FoldMode::kAlways, kMinRun));
  train_step({{batch.get(), nll_of(t)}}, t.adamw.get());
  reset_memory_peak();
  train_step({{batch.get(), nll_of(t)}}, t.adamw.get());
  const auto measured = static_cast<double>(memory_count().peak - before);
  MemoryShape shape;
  shape.tokens = shape.loss_rows = 16;
  shape.several = true;
  shape.prefix_tokens = 1024;
  const auto plan = memory_plan(policy->model().config(), shape);
  EXPECT_LT(std::fabs(static_cast<double>(total_bytes(plan)) / measured - 1), 0.1)
      << fmt::format("measured {:.1f} MB, planned ", measured / 1e6) << describe_plan(plan);
}

}  // namespace xrun::held_prefix_test
