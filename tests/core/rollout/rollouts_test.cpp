// Rollouts: the sampler's log-probs are the trainer's to the bit, draws depend on the row alone,
// and subsets keep every field.

#include "core/rollout/rollouts.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/philox.h"
#include "core/data/rows/byte_stream.h"
#include "core/model/model.h"
#include "core/model/ops/moe_routing.h"
#include "core/rollout/rollout_log.h"
#include "core/train/adamw.h"
#include "core/train/models/logprob_stand_in.h"
#include "core/train/step.h"
#include "tests/core/rollout/rollouts_fixture.h"
#include "tests/error_of.h"

namespace xrun::rollouts_test {
namespace {

// The objective of a policy gradient at ratio 1; counts tokens whose ratio is not 1.
Objective ratio_one(const std::shared_ptr<Policy>& policy, int64_t& others) {
  return [policy, &others](MicroBatch& micro) {
    bool by_row = false;
    const at::Tensor ratio =
        policy->token_logprob(micro.all()).sub(micro.field("old_logprob", &by_row)).exp();
    others += ratio.detach().ne(1).sum().item().toLong();
    return ObjectiveResult{{{Unit::kToken, ratio.neg()}}, {}};
  };
}

class EveryFamily : public RolloutsTest, public testing::WithParamInterface<const char*> {};

TEST_P(EveryFamily, TheRatioOfTheFirstUpdateIsExactlyOneAtAnyTemperature) {
  const auto policy = open(GetParam());
  AdamW adamw({policy}, {.lr = 1e-2});
  int64_t others = 0;
  for (const double temperature : {1.0, 0.7, 1.9, 0.0}) {
    SCOPED_TRACE(temperature);
    for (const FoldMode fold : {FoldMode::kNever, FoldMode::kAlways}) {
      BatchInfo info;
      info.fold = {.mode = fold, .min_run = 2};
      info.max_tokens = 60;  // several micro-batches
      const auto rollouts = sample(*policy, *prompts({10, 11, 12}, info), options(temperature));
      EXPECT_GT(rollouts->micros().size(), 1u);
      const at::Tensor scored = policy->LogprobSource::token_logprob(*rollouts);
      EXPECT_TRUE(scored.equal(rollouts->field("old_logprob")));
      train_step({{rollouts.get(), ratio_one(policy, others)}}, &adamw, {.read_gradients = [] {}});
      EXPECT_EQ(others, 0);
    }
  }
  // After an update the ratio moves, so the test above can fail.
  const auto rollouts = sample(*policy, *prompts(), options());
  train_step({{rollouts.get(), ratio_one(policy, others)}}, &adamw);
  train_step({{rollouts.get(), ratio_one(policy, others)}}, &adamw);
  EXPECT_GT(others, 0);
  EXPECT_EQ(sample(*policy, *prompts(), options())->rollouts()[0]->version, 2);
}

INSTANTIATE_TEST_SUITE_P(Of, EveryFamily, testing::Values("llama", "gpt2", "qwen3_moe", "olmo2"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(RolloutsTest, APromptAndItsAnswerFitTheModelsLimitAndTrain) {
  const auto policy = open("gpt2", 24);  // learned positions: there is none for a 25th token
  BatchInfo info;
  info.max_tokens = 24;
  const auto rollouts = sample(*policy, *prompts({10, 11, 12}, info), options());
  for (const auto& one : rollouts->rollouts()) {
    const int64_t length = std::ssize(*one->prompt_ids) + std::ssize(one->ids);
    EXPECT_LE(length, 24);
    EXPECT_TRUE(length == 24 || one->finish == "stop" || std::ssize(one->ids) == 12);
  }
  AdamW adamw({policy}, {.lr = 1e-2});
  int64_t others = 0;
  train_step({{rollouts.get(), ratio_one(policy, others)}}, &adamw);
  EXPECT_EQ(others, 0);
}

TEST_F(RolloutsTest, ADryRunFitsTheModelsLimitToo) {
  const auto policy = open("gpt2", 24);
  policy->set_replacement(std::make_shared<ModelStandIn>(
      std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(1)), "policy", [] { return true; },
      policy->vocab()));
  BatchInfo info;
  info.max_tokens = 24;
  const auto batch = prompts({10, 11, 12}, info);
  const auto rollouts = sample_rollouts(*policy, nullptr, *batch, options());
  for (const auto& one : rollouts->rollouts()) {
    EXPECT_LE(std::ssize(*one->prompt_ids) + std::ssize(one->ids), 24);
  }
}

TEST_F(RolloutsTest, FieldsHoldPromptsAndSamples) {
  const auto policy = open("llama");
  const auto rollouts = sample(*policy, *prompts(), options());
  ASSERT_EQ(rollouts->size(), 9);
  EXPECT_EQ(rollouts->unit(), Unit::kToken);
  int64_t tokens = 0;
  for (int64_t i = 0; i < 9; ++i) {
    const Rollout& one = *rollouts->rollouts()[static_cast<size_t>(i)];
    EXPECT_EQ(rollouts->field("row")[i].item().toLong(), 10 + i / 3);
    EXPECT_EQ(rollouts->field("group")[i].item().toLong(), i / 3);
    EXPECT_EQ(rollouts->field("sample")[i].item().toLong(), i % 3);
    EXPECT_EQ(rollouts->field("level")[i].item().toDouble(), (10 + i / 3) / 2.0);
    EXPECT_EQ((*rollouts->strings("answer"))[static_cast<size_t>(i)],
              fmt::format("answer {}", 10 + i / 3));
    EXPECT_EQ((*rollouts->strings("text"))[static_cast<size_t>(i)],
              policy->tokenizer()->decode(one.ids, true));
    EXPECT_EQ(rollouts->field("length")[i].item().toLong(), std::ssize(one.ids));
    tokens += std::ssize(one.ids);
  }
  EXPECT_EQ(rollouts->row_count(), tokens);  // the token that ended an answer is trained
  EXPECT_EQ(rollouts->field("old_logprob").numel(), tokens);
}

TEST_F(RolloutsTest, DrawsDependOnSeedStepRowAndSample) {
  const auto policy = open("llama");
  const auto ids = [&](const Batch& batch, const RolloutOptions& options) {
    std::vector<std::vector<int32_t>> out;
    const auto rollouts = sample(*policy, batch, options);
    for (const auto& one : rollouts->rollouts()) out.push_back(one->ids);
    return out;
  };
  const auto first = ids(*prompts(), options());
  EXPECT_EQ(ids(*prompts(), options()), first);
  // The same rows in another order, and fewer samples.
  const auto other = ids(*prompts({12, 10}), options());
  EXPECT_EQ(std::vector(other.begin(), other.begin() + 3),
            std::vector(first.begin() + 6, first.end()));
  RolloutOptions two = options();
  two.samples = 2;
  const auto fewer = ids(*prompts(), two);
  EXPECT_EQ(fewer[2], first[3]);
  // A row that occurs twice is drawn twice; another seed draws others.
  const auto twice = ids(*prompts({10, 10}), options());
  EXPECT_EQ(std::vector(twice.begin(), twice.begin() + 3),
            std::vector(first.begin(), first.begin() + 3));
  EXPECT_NE(twice[3], twice[0]);
  RolloutOptions seeded = options();
  seeded.text.generate.sampling.seed = 6;
  EXPECT_NE(ids(*prompts(), seeded), first);
  const auto batch = prompts();
  BatchInfo later = batch->info();
  later.step = 5;
  PackedBatch pack = batch->micros()[0]->pack();
  EXPECT_NE(ids(Batch(later, {pack}), options()), first);
}

TEST_F(RolloutsTest, RolloutsMayBeThePromptsOfOthers) {
  const auto policy = open("llama");
  const auto first = sample(*policy, *prompts(), options());
  RolloutOptions one = options();
  one.samples = 1;
  const auto again = sample(*policy, *first, one);
  ASSERT_EQ(again->size(), 9);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(*again->rollouts()[i]->prompt_ids, *first->rollouts()[i]->prompt_ids);
  }
  EXPECT_EQ((*again->strings("answer"))[8], "answer 12");
  EXPECT_EQ((*again->strings("text"))[8], again->rollouts()[8]->text);
}

TEST_F(RolloutsTest, ASubsetKeepsFieldsByRolloutAndByToken) {
  const auto policy = open("llama");
  const auto rollouts = sample(*policy, *prompts(), options());
  std::vector<double> advantage;
  for (int i = 0; i < 9; ++i) advantage.push_back(i);
  rollouts->set_field("advantage", at::tensor(advantage, at::kDouble), Unit::kSequence);
  rollouts->set_field("kept", rollouts->field("old_logprob").mul(2), Unit::kToken);
  const auto part = rollouts->subset({1, 5, 8});
  ASSERT_EQ(part->size(), 3);
  EXPECT_EQ(part->field("advantage")[1].item().toDouble(), 5);
  EXPECT_EQ((*part->strings("answer"))[2], "answer 12");
  EXPECT_TRUE(part->field("kept").equal(part->field("old_logprob").mul(2)));
  EXPECT_TRUE(policy->LogprobSource::token_logprob(*part).equal(part->field("old_logprob")));
  const auto none = rollouts->subset({});
  EXPECT_EQ(none->size(), 0);
  EXPECT_EQ(none->field("advantage").numel(), 0);
}

TEST_F(RolloutsTest, MinibatchesTakeEachGroupOncePerEpoch) {
  const auto policy = open("llama");
  const auto rollouts = sample(*policy, *prompts({10, 11, 12, 13, 14}), options());
  const auto batches = rollouts->minibatches(3, 2);
  ASSERT_EQ(batches.size(), 9u);  // 2 + 2 + 1 groups in each epoch
  EXPECT_EQ(batches, rollouts->minibatches(3, 2));
  std::vector<std::vector<int64_t>> epochs(3);
  for (size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(batches[i].size(), i % 3 == 2 ? 3u : 6u);
    EXPECT_EQ(batches[i][0] % 3, 0) << "a group is whole";
    epochs[i / 3].insert(epochs[i / 3].end(), batches[i].begin(), batches[i].end());
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (std::vector<int64_t>& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    ASSERT_EQ(epoch.size(), 15u);
    for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(epoch[static_cast<size_t>(i)], i);
  }
  EXPECT_EQ(error_of([&] { rollouts->minibatches(0, 2); }), "epochs is 0, wanted 1 or more");
}

TEST_F(RolloutsTest, BadInputNamesTheRowAndTheFix) {
  const auto policy = open("llama");
  const auto error = [&](const RolloutOptions& options, int64_t max_tokens = 0) {
    BatchInfo info;
    info.max_tokens = max_tokens;
    info.row_name = [](int64_t row) { return fmt::format("p.jsonl:{}", row); };
    return error_of([&] { sample(*policy, *prompts({10, 13}, info), options); });
  };
  RolloutOptions none = options();
  none.text.generate.max_new_tokens = 0;
  EXPECT_EQ(error(none),
            "max_tokens is 0, wanted 1 or more: a rollout trains the tokens of its answer");
  RolloutOptions routes = options();
  routes.replay_routes = true;
  EXPECT_EQ(error(routes), "replay_routes is true, but the model is not a mixture of experts");
  RolloutOptions no_samples = options();
  no_samples.samples = 0;
  EXPECT_EQ(error(no_samples), "samples is 0, wanted 1 or more: the answers to each prompt");
  EXPECT_EQ(
      error(options(), 30),
      "p.jsonl:13: a prompt of 23 tokens and max_tokens = 12 of an answer exceed "
      "batch.max_tokens = 30; raise it to 35, or lower max_tokens of the sampling; max_length "
      "= 18 with over_length = \"drop\" leaves such prompts out");
  auto batch = prompts();
  batch->set_strings("text", {"a", "b", "c"});
  EXPECT_EQ(error_of([&] { sample(*policy, *batch, options()); }),
            "the prompts have a column \"text\", which is a field of rollouts; rename the column");
}

TEST_F(RolloutsTest, KeepTheSourceAndTheLossWeightOfTheirRow) {
  const auto policy = open("llama");
  PackedBatch pack;
  for (int64_t i = 0; i < 3; ++i) {
    pack.append({.row_id = i,
                 .group_id = i,
                 .segment_id = i,
                 .source = static_cast<int32_t>(i % 2),
                 .weight = static_cast<float>(i) / 2},
                {5, 6, 7}, {0, 0, 0});
  }
  const Batch batch(BatchInfo{.step = 0}, std::vector<PackedBatch>{pack});
  const auto rollouts = sample(*policy, batch, options());
  for (const auto& micro : rollouts->micros()) {
    for (size_t s = 0; s < micro->pack().weight.size(); ++s) {
      const int64_t row = micro->pack().row_id[s];
      EXPECT_EQ(micro->pack().source[s], row % 2);
      EXPECT_EQ(micro->pack().weight[s], static_cast<float>(row) / 2);
    }
  }
  EXPECT_EQ(rollouts->subset({8})->micros()[0]->pack().weight[0], 1);
}

TEST_F(RolloutsTest, ColumnsWithTheNameOfAFieldAreRefusedBeforeSampling) {
  const auto policy = open("llama");
  for (const char* name : {"routes", "text"}) {
    const auto batch = prompts();
    batch->set_strings(name, {"a", "b", "c"});
    RolloutOptions counted = options();
    int64_t tokens = 0;
    counted.text.generate.progress = [&](int64_t drawn) { return tokens = drawn, true; };
    EXPECT_NE(error_of([&] { sample(*policy, *batch, counted); }).find("rename the column"),
              std::string::npos);
    EXPECT_EQ(tokens, 0) << name;
  }
}

TEST_F(RolloutsTest, AnUpdateNotesTheAdvantage) {
  const auto policy = open("llama");
  const auto rollouts = sample(*policy, *prompts(), options());
  rollouts->note_trained();
  EXPECT_TRUE(rollouts->rollouts()[0]->trained);
  EXPECT_FALSE(rollouts->rollouts()[0]->advantage.has_value());
  rollouts->set_field("advantage", at::tensor(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8}),
                      Unit::kSequence);
  rollouts->subset({2, 5})->note_trained();
  EXPECT_EQ(rollouts->rollouts()[2]->advantage, 2);
  EXPECT_EQ(rollouts->rollouts()[5]->advantage, 5);
  EXPECT_FALSE(rollouts->rollouts()[0]->advantage.has_value());
}

}  // namespace
}  // namespace xrun::rollouts_test
