// Rollouts: the sampler's log-probs are the trainer's to the bit, draws depend on the row alone,
// and subsets keep every field.

#include "core/rollout/rollouts.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/philox.h"
#include "core/data/rows/byte_stream.h"
#include "core/model/model.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/weights/init_model.h"
#include "core/rollout/rollout_log.h"
#include "core/rollout/rollout_sampler.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/adamw.h"
#include "core/train/policy.h"
#include "core/train/step.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::rollouts_test {
namespace {

class RolloutsTest : public testing::Test {
 protected:
  RolloutsTest()
      : folder_(std::filesystem::temp_directory_path() /
                fmt::format("xrun_rollouts_{}", ::getpid())) {
    at::set_num_threads(1);
    std::filesystem::remove_all(folder_);
  }
  ~RolloutsTest() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<Policy> open(const std::string& family) const {
    const std::filesystem::path tokenizer = source_path("tests/data/tiny_tokenizer");
    InitOptions options{.family = family, .hidden = 32, .ffn = 48, .scale = 0.2};
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size();
    if (family == "gpt2") options.kv_heads = options.heads;
    if (family == "qwen3_moe") {
      options.experts = 4;
      options.top_k = 2;
      options.expert_ffn = 16;
    }
    const std::filesystem::path dir = folder_ / family;
    if (!std::filesystem::exists(dir)) init_model(dir, options);
    return Policy::open(dir);
  }

  // A batch of prompts whose rows are 10, 11, ... (or as given), with a column of each type.
  static std::shared_ptr<Batch> prompts(std::vector<int64_t> rows = {10, 11, 12},
                                        BatchInfo info = {}) {
    info.step = 4;
    info.total_steps = 10;
    PackedBatch pack;
    std::vector<double> level;
    std::vector<std::string> answer;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<int32_t> ids;
      for (int32_t t = 0; t < 5 + 3 * static_cast<int32_t>(rows[i] % 7); ++t) {
        ids.push_back((7 * t + static_cast<int32_t>(rows[i])) % 250);
      }
      const auto index = static_cast<int64_t>(i);
      pack.append({.row_id = rows[i], .group_id = index, .segment_id = index}, ids,
                  std::vector<uint8_t>(ids.size(), 0));
      level.push_back(static_cast<double>(rows[i]) / 2);
      answer.push_back(fmt::format("answer {}", rows[i]));
    }
    auto batch = std::make_shared<Batch>(std::move(info), std::vector<PackedBatch>{pack});
    batch->set_field("level", at::tensor(level, at::kDouble), Unit::kSequence);
    batch->set_strings("answer", answer);
    return batch;
  }

  static RolloutOptions options(double temperature = 1) {
    RolloutOptions made{.samples = 3};
    made.text.generate = {.max_new_tokens = 12,
                          .sampling = {.temperature = temperature, .seed = 5}};
    return made;
  }
  static std::shared_ptr<Rollouts> sample(Policy& policy, const Batch& batch,
                                          const RolloutOptions& options) {
    return sample_rollouts(policy, &policy.model(), batch, options);
  }

  std::filesystem::path folder_;
};

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

INSTANTIATE_TEST_SUITE_P(Of, EveryFamily, testing::Values("llama", "gpt2", "qwen3_moe"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(RolloutsTest, FieldsAreThoseOfPromptsAndSamples) {
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

TEST_F(RolloutsTest, MinibatchesTakeEachGroupOnceAnEpoch) {
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

double metric(const Metrics& metrics, const std::string& name) {
  const auto found = find_metric(metrics, name);
  EXPECT_TRUE(found.has_value()) << name;
  return found.value_or(-1);
}

TEST_F(RolloutsTest, MetricsAndFileHoldEverySampleOfABody) {
  const auto policy = open("llama");
  const auto rollouts = sample(*policy, *prompts(), options());
  BodyRollouts body;
  body.all = rollouts->rollouts();
  EXPECT_FALSE(find_metric(rollout_metrics(body), "rollout/reward").has_value());
  double length = 0;
  for (size_t i = 0; i < 9; ++i) {
    Rollout& one = *body.all[i];
    length += static_cast<double>(one.ids.size()) / 9;
    one.finish = i == 0 ? "stop" : "length";
    if (i == 8) continue;  // its reward failed
    one.reward = i < 3 ? 1 : static_cast<double>(i % 2);
    one.parts = {{"format", 0.5}};
  }
  body.all[1]->trained = true;
  const Metrics metrics = rollout_metrics(body);
  EXPECT_DOUBLE_EQ(metric(metrics, "rollout/reward"), 6.0 / 8);
  EXPECT_DOUBLE_EQ(metric(metrics, "rollout/reward_std"),
                   std::sqrt((6 * 1.0 / 16 + 2 * 9.0 / 16) / 7));
  EXPECT_EQ(metric(metrics, "rollout/reward/format"), 0.5);
  EXPECT_DOUBLE_EQ(metric(metrics, "rollout/length"), length);
  std::vector<double> lengths;
  for (const auto& one : body.all) lengths.push_back(static_cast<double>(one->ids.size()));
  std::sort(lengths.begin(), lengths.end());
  EXPECT_EQ(metric(metrics, "rollout/length_p50"), lengths[4]);
  EXPECT_EQ(metric(metrics, "rollout/length_max"), lengths[8]);
  EXPECT_DOUBLE_EQ(metric(metrics, "rollout/stopped"), 1.0 / 9);
  EXPECT_EQ(metric(metrics, "rollout/groups"), 3);
  EXPECT_EQ(metric(metrics, "rollout/zero_variance_groups"), 1);
  // Rewards 1 1 1, 1 0 1, 0 1: pass@1 is (1 + 2/3 + 1/2) / 3; two of any three hold a 1.
  EXPECT_DOUBLE_EQ(metric(metrics, "rollout/pass_at_1"), (1 + 2.0 / 3 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(metric(metrics, "rollout/pass_at_2"), 1);
  EXPECT_DOUBLE_EQ(metric(metrics, "rollout/pass_at_3"), 1);
  EXPECT_FALSE(find_metric(metrics, "rollout/pass_at_4").has_value());
  EXPECT_DOUBLE_EQ(metric(metrics, "rollout/groups_all_passed"), 1.0 / 3);
  EXPECT_EQ(metric(metrics, "rollout/groups_none_passed"), 0);
  EXPECT_FALSE(find_metric(metrics, "rollout/total_attempts").has_value());
  EXPECT_FALSE(find_metric(metrics, "perf/sample_tokens_per_s").has_value());
  EXPECT_FALSE(find_metric(metrics, "perf/draft_accepted").has_value());
  for (const int repeat : {0, 1}) {
    SCOPED_TRACE(repeat);
    write_rollouts(folder_ / "rollouts", 12, body);
    const auto file =
        open_byte_stream((folder_ / "rollouts/step_0000012.jsonl.zst").string(), "rollouts");
    std::string text(1 << 20, '\0');
    text.resize(file->read(text.data(), text.size()));
    const std::string line = text.substr(0, text.find('\n'));
    const Json first = parse_json(line, "line");
    EXPECT_EQ(first.at("row").as_int(), 10);
    EXPECT_EQ(first.at("finish").as_string(), "stop");
    EXPECT_EQ(first.at("ids").size(), body.all[0]->ids.size());
    EXPECT_EQ(static_cast<float>(first.at("logprobs").as_array()[0].as_double()),
              body.all[0]->logprobs[0]);
    EXPECT_EQ(first.at("reward").as_double(), 1);
    EXPECT_EQ(first.at("parts").at("format").as_double(), 0.5);
    EXPECT_FALSE(first.at("trained").as_bool());
    EXPECT_TRUE(first.at("passed").as_bool());
    EXPECT_TRUE(first.at("advantage").is_null());
    EXPECT_EQ(first.at("prompt").as_string(), body.all[0]->prompt_text);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9);
  }
}

TEST_F(RolloutsTest, AnAnswerPassesAboveALimitIfRewardsAreNotBinary) {
  const auto policy = open("llama");
  const auto rollouts = sample(*policy, *prompts(), options());
  BodyRollouts body;
  body.all = rollouts->rollouts();
  for (size_t i = 0; i < 9; ++i) body.all[i]->reward = static_cast<double>(i) / 8;
  EXPECT_FALSE(find_metric(rollout_metrics(body), "rollout/pass_at_1").has_value());
  body.pass_settled = true;
  for (size_t i = 0; i < 9; ++i) body.all[i]->reward = static_cast<double>(i % 2);
  EXPECT_FALSE(find_metric(rollout_metrics(body), "rollout/pass_at_1").has_value())
      << "an earlier body decided that answers do not pass or fail";
  for (size_t i = 0; i < 9; ++i) body.all[i]->reward = static_cast<double>(i) / 8;
  body.pass = 0.5;
  EXPECT_DOUBLE_EQ(metric(rollout_metrics(body), "rollout/pass_at_1"), (0 + 1.0 / 3 + 1) / 3);
  EXPECT_DOUBLE_EQ(metric(rollout_metrics(body), "rollout/groups_all_passed"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(metric(rollout_metrics(body), "rollout/groups_none_passed"), 1.0 / 3);
  body.drawn = 8;
  body.drafted = 6;
  body.accepted = 2;
  EXPECT_EQ(metric(rollout_metrics(body), "perf/draft_accepted"), 0.25);
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

TEST_F(RolloutsTest, TheFileHasRoutesAndTruncatedLogprobsWhereTheyExist) {
  const auto policy = open("qwen3_moe");
  RolloutOptions given = options();
  given.replay_routes = true;
  given.text.generate.sampling.top_k = 4;
  const auto rollouts = sample(*policy, *prompts(), given);
  const Rollout& one = *rollouts->rollouts()[1];
  const at::Tensor routes = rollouts->routes(1);
  const auto tokens = std::ssize(*one.prompt_ids) + std::ssize(one.ids) - 1;
  EXPECT_EQ(routes.sizes(), (std::vector<int64_t>{tokens, one.routes->layers, 2}));
  EXPECT_EQ(routes[0][0][1].item().toLong(), one.routes->experts[1]);
  BodyRollouts body;
  body.all = rollouts->rollouts();
  write_rollouts(folder_ / "rollouts", 0, body);
  const auto file =
      open_byte_stream((folder_ / "rollouts/step_0000000.jsonl.zst").string(), "rollouts");
  std::string text(1 << 22, '\0');
  text.resize(file->read(text.data(), text.size()));
  const size_t second = text.find('\n') + 1;
  const Json line = parse_json(text.substr(second, text.find('\n', second) - second), "line");
  EXPECT_EQ(line.at("routes").at("experts").size(), one.routes->experts.size());
  ASSERT_EQ(line.at("logprobs_kept").size(), one.ids.size());
  EXPECT_GE(line.at("logprobs_kept").as_array()[0].as_double(),
            line.at("logprobs").as_array()[0].as_double());
  const auto plain = sample(*policy, *prompts(), options());
  EXPECT_FALSE(plain->has_routes());
  EXPECT_TRUE(plain->rollouts()[0]->logprobs_kept.empty());
}

TEST_F(RolloutsTest, CountsOfAQueueAndRatesAreThoseOfTheBody) {
  const auto policy = open("llama");
  BodyRollouts body;
  body.all = sample(*policy, *prompts(), options())->rollouts();
  // Rewards that differ in their last bit are equal, and an even number of lengths has a mean.
  for (size_t i = 0; i < 9; ++i) {
    body.all[i]->reward = i < 3 ? 0.1 + 0.2 * static_cast<double>(i % 2 == 0) : 0.3;
  }
  body.all[4]->reward = 0.1 + 0.2;
  for (size_t i = 0; i < 8; ++i) body.all[i]->logprobs.resize(1 + i);
  body.all.pop_back();
  body.counts = GroupCounts{5, 3, 2, 1};
  body.totals = GroupCounts{20, 12, 8, 4};
  body.batches = 5;
  body.waiting = 2;
  body.sampled = 300;
  body.sample_s = 0.5;
  Metrics metrics = rollout_metrics(body);
  EXPECT_EQ(metric(metrics, "rollout/length_p50"), 4.5);
  EXPECT_EQ(metric(metrics, "rollout/attempts"), 5);
  EXPECT_EQ(metric(metrics, "rollout/zero_variance_groups"), 2);
  EXPECT_EQ(metric(metrics, "rollout/total_attempts"), 20);
  EXPECT_EQ(metric(metrics, "rollout/total_valid_groups"), 12);
  EXPECT_EQ(metric(metrics, "rollout/total_zero_variance_groups"), 8);
  EXPECT_EQ(metric(metrics, "rollout/total_stale_dropped"), 4);
  EXPECT_EQ(metric(metrics, "rollout/attempts_per_batch"), 4);
  EXPECT_EQ(metric(metrics, "perf/sample_tokens_per_s"), 600);
  body.counts.reset();
  metrics = rollout_metrics(body);
  EXPECT_EQ(metric(metrics, "rollout/zero_variance_groups"), 2) << "0.3 and 0.1 + 0.2 are equal";
}

TEST_F(RolloutsTest, AResumeCutsTheFilesOfRepeatedSteps) {
  const std::filesystem::path dir = folder_ / "rollouts";
  cut_rollouts(dir, 3);  // there is no folder
  for (const int64_t step : {0, 2, 3, 7, 12345678}) write_rollouts(dir, step, {});
  write_file_atomic(dir / "notes.txt", "a user's");
  write_file_atomic(dir / "step_0000001.jsonl.zst.tmp7", "half of a file");
  cut_rollouts(dir, 3);
  std::vector<std::string> left;
  for (const auto& path : list_folder(dir)) left.push_back(path.filename().string());
  EXPECT_EQ(left, (std::vector<std::string>{"notes.txt", "step_0000000.jsonl.zst",
                                            "step_0000002.jsonl.zst"}));
}

TEST_F(RolloutsTest, TheEstimateOfTheirFileIsNearAndRatherTooHigh) {
  for (const int64_t tokens : {8, 100}) {
    SCOPED_TRACE(tokens);
    BodyRollouts body;
    for (int64_t i = 0; i < 64; ++i) {
      auto one = std::make_shared<Rollout>();
      one->row = one->prompt = i / 8;
      one->sample = i % 8;
      one->finish = "length";
      one->prompt_text = fmt::format("user\nWhat is {} + {}?\nassistant\n", i / 8, 3 * i / 8);
      for (int64_t t = 0; t < tokens; ++t) {
        const uint64_t draw = philox_u64(7, 1, static_cast<uint64_t>(i), static_cast<uint64_t>(t));
        // Answers of a model: some tokens are sure, and many occur again and again.
        one->ids.push_back(static_cast<int32_t>(draw % 8 < 4 ? draw % 101 : draw % 49152));
        one->logprobs.push_back(-static_cast<float>(draw >> 40) / static_cast<float>(1 << 22));
        one->text += "word "[t % 5];
      }
      one->reward = static_cast<double>(i % 2);
      body.all.push_back(std::move(one));
    }
    write_rollouts(folder_ / "rollouts", tokens, body);
    const auto size = static_cast<double>(
        std::filesystem::file_size(folder_ / fmt::format("rollouts/step_{:07}.jsonl.zst", tokens)));
    const auto estimate = static_cast<double>(rollout_bytes(64, tokens));
    EXPECT_GT(estimate, 0.9 * size);
    EXPECT_LT(estimate, 2.0 * size);
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
