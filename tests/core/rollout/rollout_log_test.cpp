// The record of a body's samples: its file, its metrics, and the size that is planned for it.

#include "core/rollout/rollout_log.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/philox.h"
#include "core/model/model.h"
#include "core/model/ops/moe_routing.h"
#include "core/train/adamw.h"
#include "core/train/step.h"
#include "tests/core/rollout/rollouts_fixture.h"
#include "tests/core/train/trained.h"
#include "tests/decompressed.h"
#include "tests/error_of.h"

namespace xrun::rollout_log_test {
namespace {

class RolloutLog : public RolloutsTest {};

TEST_F(RolloutLog, MetricsAndFileHoldEverySampleOfABody) {
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
  body.all[0]->location = "sums.jsonl:11";
  body.all[1]->trained = true;
  const Metrics metrics = rollout_metrics(body);
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/reward"), 6.0 / 8);
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/reward_std"),
                   std::sqrt((6 * 1.0 / 16 + 2 * 9.0 / 16) / 7));
  EXPECT_EQ(value(metrics, "rollout/reward/format"), 0.5);
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/length"), length);
  std::vector<double> lengths;
  for (const auto& one : body.all) lengths.push_back(static_cast<double>(one->ids.size()));
  std::sort(lengths.begin(), lengths.end());
  EXPECT_EQ(value(metrics, "rollout/length_p50"), lengths[4]);
  EXPECT_EQ(value(metrics, "rollout/length_max"), lengths[8]);
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/stopped"), 1.0 / 9);
  EXPECT_EQ(value(metrics, "rollout/groups"), 3);
  EXPECT_EQ(value(metrics, "rollout/zero_variance_groups"), 1);
  // Rewards 1 1 1, 1 0 1, 0 1: pass@1 is (1 + 2/3 + 1/2) / 3; two of any three hold a 1.
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/pass_at_1"), (1 + 2.0 / 3 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/pass_at_2"), 1);
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/pass_at_3"), 1);
  EXPECT_FALSE(find_metric(metrics, "rollout/pass_at_4").has_value());
  EXPECT_DOUBLE_EQ(value(metrics, "rollout/groups_all_passed"), 1.0 / 3);
  EXPECT_EQ(value(metrics, "rollout/groups_none_passed"), 0);
  EXPECT_FALSE(find_metric(metrics, "rollout/total_attempts").has_value());
  EXPECT_FALSE(find_metric(metrics, "perf/sample_tokens_per_s").has_value());
  EXPECT_FALSE(find_metric(metrics, "perf/draft_accepted").has_value());
  for (const int repeat : {0, 1}) {
    SCOPED_TRACE(repeat);
    write_rollouts(folder_ / "rollouts", 12, body);
    const std::string text = decompressed(folder_ / "rollouts/step_0000012.jsonl.zst");
    const std::string line = text.substr(0, text.find('\n'));
    const Json first = parse_json(line, "line");
    EXPECT_EQ(first.at("row").as_int(), 10);
    EXPECT_EQ(first.at("location").as_string(), "sums.jsonl:11");
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

TEST_F(RolloutLog, AnAnswerPassesAboveALimitIfRewardsAreNotBinary) {
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
  EXPECT_DOUBLE_EQ(value(rollout_metrics(body), "rollout/pass_at_1"), (0 + 1.0 / 3 + 1) / 3);
  EXPECT_DOUBLE_EQ(value(rollout_metrics(body), "rollout/groups_all_passed"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(value(rollout_metrics(body), "rollout/groups_none_passed"), 1.0 / 3);
  body.drawn = 8;
  body.drafted = 6;
  body.accepted = 2;
  EXPECT_EQ(value(rollout_metrics(body), "perf/draft_accepted"), 0.25);
}

TEST_F(RolloutLog, TheFileHasRoutesAndTruncatedLogprobsWhereTheyExist) {
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
  const std::string text = decompressed(folder_ / "rollouts/step_0000000.jsonl.zst");
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

TEST_F(RolloutLog, QueueCountsAndRatesCoverTheBody) {
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
  EXPECT_EQ(value(metrics, "rollout/length_p50"), 4.5);
  EXPECT_EQ(value(metrics, "rollout/attempts"), 5);
  EXPECT_EQ(value(metrics, "rollout/zero_variance_groups"), 2);
  EXPECT_EQ(value(metrics, "rollout/total_attempts"), 20);
  EXPECT_EQ(value(metrics, "rollout/total_valid_groups"), 12);
  EXPECT_EQ(value(metrics, "rollout/total_zero_variance_groups"), 8);
  EXPECT_EQ(value(metrics, "rollout/total_stale_dropped"), 4);
  EXPECT_EQ(value(metrics, "rollout/attempts_per_batch"), 4);
  EXPECT_EQ(value(metrics, "perf/sample_tokens_per_s"), 600);
  body.counts.reset();
  metrics = rollout_metrics(body);
  EXPECT_EQ(value(metrics, "rollout/zero_variance_groups"), 2) << "0.3 and 0.1 + 0.2 are equal";
}

TEST_F(RolloutLog, AResumeCutsTheFilesOfRepeatedSteps) {
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

TEST_F(RolloutLog, TheEstimateOfTheirFileIsNearAndRatherTooHigh) {
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

}  // namespace
}  // namespace xrun::rollout_log_test
