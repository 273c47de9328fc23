// xrun.rollouts from Lua: batches of groups with varied rewards, a queue of older ones, and the
// loss path of their tokens.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/strings.h"
#include "tests/lua/bind/rollout/rollout_source_fixture.h"

namespace xrun::rollout_source_test {

TEST_F(RolloutSources, GiveScoredBatchesOfGroupsWithVariedRewards) {
  ASSERT_EQ(run(recipe("", R"(
  assert(rollouts.size == 6 and #rollouts.text == 6 and #rollouts.word == 6)
  for g = 0, 1 do
    local low, high = math.huge, -math.huge
    for i = 3 * g, 3 * g + 2 do
      local reward = rollouts.reward[i]:item()
      low, high = math.min(low, reward), math.max(high, reward)
      assert(rollouts.group[i]:item() == g and rollouts.sample[i]:item() == i % 3)
      assert(rollouts.digit[i]:item() == tonumber(rollouts.word[i + 1]:sub(2)) % 4)
    end
    assert(high > low)
  end
  assert((policy:token_logprob(rollouts) - rollouts.old_logprob):abs():max():item() == 0)
  run:log(adamw:step(rollouts, grpo)))"),
                "r"),
            "");
  EXPECT_EQ(values("r", "train/ratio"), (Values{1, 1, 1, 1, 1}));
  EXPECT_EQ(values("r", "train/path_on_policy"), (Values{1, 1, 1, 1, 1}));
  EXPECT_EQ(values("r", "rollout/logprob_diff_max"), (Values{0, 0, 0, 0, 0}));
  for (const char* name : {"rollout/logprob_diff_mean", "rollout/ratio_outside"}) {
    EXPECT_EQ(values("r", name), (Values{0, 0, 0, 0, 0})) << name;
  }
  for (const char* name :
       {"rollout/token_mult_prob_error", "train/ratio_mean", "train/ratio_max"}) {
    EXPECT_EQ(values("r", name), (Values{1, 1, 1, 1, 1})) << name;
  }
  EXPECT_EQ(values("r", "rollout/valid_groups"), (Values{2, 2, 2, 2, 2}));
  EXPECT_EQ(values("r", "rollout/total_valid_groups"), (Values{2, 4, 6, 8, 10}));
  EXPECT_TRUE(has(read_file("r/metrics.jsonl"), "perf/sample_tokens_per_s"));
  const Values attempts = values("r", "rollout/attempts"),
               equal = values("r", "rollout/zero_variance_groups");
  double all = 0;
  for (size_t i = 0; i < attempts.size(); ++i) {
    EXPECT_EQ(attempts[i], 2 + equal[i]);
    const std::string text =
        decompressed(fmt::format("r/rollouts/step_{:07}.jsonl.zst", static_cast<int>(i)));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 * attempts[i]);
    all += equal[i];
    const auto step = static_cast<double>(i);
    EXPECT_EQ(values("r", "rollout/total_zero_variance_groups")[i], all);
    EXPECT_EQ(values("r", "rollout/total_attempts")[i], 2 * (step + 1) + all);
    EXPECT_DOUBLE_EQ(values("r", "rollout/attempts_per_batch")[i], 2 + all / (step + 1));
  }
  EXPECT_GT(all, 0) << "no group was left out; choose another seed";
  EXPECT_TRUE(has(
      output_,
      "2 groups x 3 samples = 6 answers a step, at most 6 tokens each, at "
      "temperature 0.8; prompts are drawn until 2 groups have rewards that deviate by more than"));
  EXPECT_TRUE(has(output_,
                  "step 0: 2 prompts x 3 samples = 6 answers trained, 1 update, loss: the "
                  "mean over "));
  EXPECT_TRUE(has(output_, ", loss path: on-policy\n"));
}

TEST_F(RolloutSources, AreCorrectedByTruncatedImportanceSampling) {
  ASSERT_EQ(run(recipe("depth = 1", R"(
  rollouts.old_logprob = policy:token_logprob(rollouts)
  local function corrected(r)
    local difference = r.old_logprob - r.sampler_logprob
    local function same(a, b) assert((a - b):abs():max():item() == 0) end
    same(r:truncated_ratio(1.0001), difference:exp():clamp_max(1.0001))
    same(r:truncated_ratio(2, "mean"), r:mean(difference):exp():clamp_max(2))
    same(r:truncated_ratio(2, "sum"), r:sum(difference):exp():clamp_max(2))
    local loss, metrics = grpo(r)
    local weight = r:truncated_ratio(1.0001)
    metrics.weight, metrics.most = weight, weight:max()
    return loss * weight, metrics
  end
  run:log(adamw:step(rollouts, corrected)))"),
                "r"),
            "");
  EXPECT_EQ(values("r", "train/ratio"), (Values{1, 1, 1, 1, 1})) << "old_logprob is recomputed";
  EXPECT_EQ(values("r", "train/path_corrected"), (Values{0, 1, 1, 1, 1}));
  EXPECT_EQ(values("r", "train/weight")[0], 1);
  EXPECT_NE(values("r", "train/weight")[2], 1);
  EXPECT_FLOAT_EQ(static_cast<float>(values("r", "train/most")[2]), 1.0001F);
  EXPECT_TRUE(has(output_, "step 1: loss path: corrected by truncated importance sampling (100 %"));
}

// Decoding has other shapes than training, so these metrics are above 0 where bf16 products depend
// on the number of rows. The bounds are those at which public trainers raise an alarm.
TEST_F(RolloutSources, InBf16DifferFromTheTrainingForwardByALittleAtMost) {
  ASSERT_EQ(run(recipe(), "r", {.sets = {"dtype=bf16", "gemm=bf16"}}), "");
  const auto printed = [&](const char* name) {
    const Values all = values("r", name);
    EXPECT_EQ(all.size(), 5u) << name;
    std::string text;
    for (const double value : all) add_item(text, fmt::format("{:.3g}", value));
    std::printf("  %s: %s\n", name, text.c_str());
    return all;
  };
  const Values mean = printed("rollout/logprob_diff_mean"),
               most = printed("rollout/logprob_diff_max"),
               error = printed("rollout/token_mult_prob_error"),
               outside = printed("rollout/ratio_outside"), ratio = printed("train/ratio_max");
  for (size_t i = 0; i < most.size(); ++i) {
    EXPECT_LE(mean[i], 0.02);
    EXPECT_GE(most[i], mean[i]);
    EXPECT_LE(most[i], 0.1);
    EXPECT_GE(error[i], 1);
    EXPECT_LE(error[i], 1.02);
    EXPECT_LE(outside[i], 0.08);
    EXPECT_LE(ratio[i], std::exp(most[i]) + 1e-12);
  }
  ASSERT_EQ(run(recipe(), "fp32"), "");
  EXPECT_NE(values("r", "train/logprob_all"), values("fp32", "train/logprob_all"));
}

// Upcast products see each row alone, as fp32 ones do, and attention, norms and the head do so in
// every type: nothing of a token depends on the tokens beside it.
TEST_F(RolloutSources, Bf16WithUpcastProductsMatchesTheTrainingForward) {
  ASSERT_EQ(run(recipe(), "r", {.sets = {"dtype=bf16", "gemm=fp32"}}), "");
  EXPECT_EQ(values("r", "rollout/logprob_diff_max"), (Values{0, 0, 0, 0, 0}));
  EXPECT_EQ(values("r", "train/ratio_max"), (Values{1, 1, 1, 1, 1}));
}

TEST_F(RolloutSources, CountInTheDiskThatARunNeeds) {
  std::string text = recipe("", "break");
  text.replace(text.find("steps = 5"), 9, "steps = 1000000000000");
  ASSERT_EQ(run(text, "r"), "");
  // 10^12 steps of 2 groups of 3 answers of 6 tokens at most.
  EXPECT_TRUE(has(output_, "about 636 TB of sampled answers)"));
}

// 96 answers a round, of which 64 are decoded at once.
TEST_F(RolloutSources, SlowAnswersAreScoredWhileOthersAreSampled) {
  const auto with = [&](const std::string& key, const std::string& upvalue,
                        const std::string& dir) {
    std::string text = recipe("round = 12", kUpdate,
                              upvalue + " return #s.ids % 5 + s.digit / 7, { first = s.ids[1] }");
    text.replace(text.find("reward = reward"), 15, key + " = reward");
    const int threads = at::get_num_threads();
    const std::string error = run(text, dir,
                                  {.sets = {"sampling.samples=8", "sampling.max_tokens=40",
                                            "steps=3", "batch.max_tokens=3000"},
                                   .threads = 2});
    at::set_num_threads(threads);
    EXPECT_EQ(error, "");
  };
  with("reward", "local _ = adamw", "own");
  EXPECT_EQ(read_file("own/metrics.jsonl").find("perf/early_rewards"), std::string::npos);
  with("reward", "", "early");
  has(read_file("early/metrics.jsonl"), "perf/early_rewards");
  EXPECT_EQ(metrics("early"), metrics("own"));
  expect_same_files("own", "early", 3);
}

TEST_F(RolloutSources, SlowAFailedRewardOfAnEarlyAnswerEndsTheRunAsALateOneDoes) {
  const auto with = [&](const std::string& upvalue) {
    std::filesystem::remove_all("r");
    const std::string text =
        recipe("round = 12", kUpdate, upvalue + " if s.digit == 1 then error('no') end return 1");
    const int threads = at::get_num_threads();
    const std::string error = run(text, "r", {.sets = {"sampling.samples=8"}, .threads = 2});
    at::set_num_threads(threads);
    return error;
  };
  const std::string late = with("local _ = adamw");
  has(late, "the reward of sample 0 failed");
  EXPECT_EQ(with(std::string("local _ = 123")), late);
}

TEST_F(RolloutSources, MaskedSamplesAreLeftOutAndRecorded) {
  ASSERT_EQ(run(recipe("on_error = 'mask'", kUpdate,
                       "if s.index == 1 then return nil end return s.index"),
                "r"),
            "");
  EXPECT_EQ(values("r", "rollout/failed_rewards"), (Values{2, 2, 2, 2, 2}));
  const std::string text = decompressed("r/rollouts/step_0000000.jsonl.zst");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
  EXPECT_TRUE(has(text, "\"reward\":null"));
  std::vector<std::pair<int64_t, int64_t>> order;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const Json line = parse_json(text.substr(at, text.find('\n', at) - at), "line");
    order.emplace_back(line.at("group").as_int(), line.at("sample").as_int());
  }
  EXPECT_EQ(order, (std::vector<std::pair<int64_t, int64_t>>{
                       {0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}))
      << "the samples of a group are together";
}

TEST_F(RolloutSources, ThatCannotWorkAreRefusedWithTheCause) {
  const std::string constant = run(recipe("max_attempts = 5", kUpdate, "return 0"), "a");
  has(constant, "5 groups in a row have equal rewards");
  has(constant, "Likely cause: no answer earns anything");
  has(constant, "max_attempts = 50");
  const auto with = [&](const std::string& set) { return run(recipe(), "b", {.sets = {set}}); };
  has(with("sampling.samples=1"), "sampling.samples is 1: the rewards of a group vary only");
  has(with("sampling.temperature=0"), "sampling.temperature is 0: greedy answers");
  has(with("sampling.max_tokens=0"), "sampling.max_tokens is 0, wanted 1 or more");
  has(with("sampling.max_tokens=590"), "prompts.jsonl:1: a prompt of ");
  has(run(recipe("score_groups = reward"), "b"), "xrun.rollouts has `reward` and `score_groups`");
  has(run(recipe("depth = -1"), "b"), "depth is -1, wanted 0 or more");
  has(run(recipe("dept = 1"), "b"), "depth");
  has(run(recipe("on_error = 'skip'"), "b"), "on_error is \"skip\"");
  std::string prompts = recipe();
  prompts.replace(prompts.find("groups = 2"), 10, "prompts = 2");
  has(run(prompts, "c"), "batch.prompts does not fit xrun.rollouts");
  std::string data = recipe();
  data.replace(data.find("run:steps(source"), 16, "run:steps(data");
  has(run(data, "c"), "batch.groups does not fit prompts rows");
}

TEST_F(RolloutSources, TakeAGroupRewardAFilterAndAPassLimit) {
  std::string text = recipe("filter = function(s) return s.index ~= 1 end, pass = 5", R"(
  assert(rollouts.size == 4 and rollouts.sample[1]:item() == 2)
  assert(rollouts.reward[0]:item() == 10 and rollouts.reward[1]:item() == 3)
  run:log(adamw:step(rollouts, grpo)))");
  const std::string by_sample = "reward = reward";
  text.replace(text.find(by_sample), by_sample.size(),
               "score_groups = function(group) assert(#group == 3) return { 10, 7, 3 } end");
  ASSERT_EQ(run(text, "r"), "");
  const Values pass = values("r", "rollout/pass_at_1");
  ASSERT_EQ(pass.size(), 5u);
  EXPECT_DOUBLE_EQ(pass[4], 2.0 / 3) << "of 10, 7 and 3, two are above 5";
  const std::string file = decompressed("r/rollouts/step_0000000.jsonl.zst");
  EXPECT_EQ(std::count(file.begin(), file.end(), '\n'), 6) << "filtered samples are recorded";
  // Every sample is rejected: no group has varied rewards.
  const std::string none =
      run(recipe("max_attempts = 3, filter = function() return false end"), "n");
  has(none, "3 groups in a row have equal rewards");
  has(none, "or the filter left no answer");
}

TEST_F(RolloutSources, ReadTheirSamplingWithTheDefaultsOfSampling) {
  std::string text = recipe("", R"(
  run:log(adamw:step(rollouts, grpo)))");
  const std::string temperature = ", temperature = 0.8";
  text.replace(text.find(temperature), temperature.size(), "");
  ASSERT_EQ(run(text, "silent"), "");
  EXPECT_TRUE(has(output_, "at temperature 1; prompts"));
  EXPECT_EQ(values("silent", "train/ratio"), (Values{1, 1, 1, 1, 1}));
}

TEST_F(RolloutSources, FollowTheStagesAndSourcesOfAMixture) {
  std::filesystem::copy_file("prompts.jsonl", "more.jsonl");
  std::string text = recipe("", R"(
  for i = 0, 5 do assert(rollouts.source[i]:item() == (step < 2 and 0 or 1), "at step " .. step) end
  run:log(adamw:step(rollouts, grpo)))",
                            "return s.index");
  const std::string data = R"(data = { { path = "prompts.jsonl", keep = { "digit", "word" } } },)";
  text.replace(text.find(data), data.size(),
               R"(data = { { path = "prompts.jsonl" }, { path = "more.jsonl" } },
  mixture = { stages = { { start = 0, weights = { 1, 0 } }, { start = 2, weights = { 0, 1 } } } },)");
  EXPECT_EQ(run(text, "r"), "");
}

TEST_F(RolloutSources, OverPairsHaveTheColumnsOfTheirOwnRow) {
  std::string rows;
  for (int i = 0; i < 12; ++i) {
    rows += fmt::format(
        R"({{"prompt": "say {0} ?", "chosen": "yes", "rejected": "no", "digit": {0}}})", i);
    rows += "\n";
  }
  write_file_atomic("prompts.jsonl", rows);
  std::string text = recipe("", R"(
  for i = 0, 5 do assert(rollouts.digit[i]:item() == rollouts.row[i]:item()) end
  run:log(adamw:step(rollouts, grpo)))",
                            "return s.index + 0 * s.digit");
  text.replace(text.find(R"("digit", "word")"), 15, R"("digit")");
  text.replace(text.find("xrun.prompts(cfg.data"), 21, "xrun.preference(cfg.data");
  EXPECT_EQ(run(text, "r"), "");
}

TEST_F(RolloutSources, OfOneLoopAddTheirCounts) {
  std::string text =
      recipe("", "run:log(adamw:step({ { rollouts, grpo }, { more, grpo } }))", "return s.index");
  text.replace(text.find("for step, rollouts in run:steps(source"), 38,
               "local other = xrun.rollouts { prompts = data, sampling = cfg.sampling, reward = "
               "reward, round = 3 }\nfor step, rollouts, more in run:steps({ source, other }");
  text.replace(text.find("  rollouts.advantage"), 0,
               "  more.advantage = xrun.group_advantage(more.reward, more.group)\n");
  ASSERT_EQ(run(text, "r", {.steps = 1}), "");
  EXPECT_EQ(values("r", "rollout/valid_groups"), (Values{5}));
  EXPECT_EQ(values("r", "rollout/waiting_groups"), (Values{1}));
}

TEST_F(RolloutSources, APromptThatLeavesTheModelNoRoomIsRefusedBeforeStepZero) {
  const std::string error = run(recipe(), "a", {.sets = {"sampling.max_tokens=590"}});
  const std::string before = "prompts.jsonl:1: a prompt of ";
  ASSERT_TRUE(has(error, before));
  const auto tokens = std::stoll(error.substr(error.find(before) + before.size()));
  Json config = read_json("tiny/config.json");
  config.set("max_position_embeddings", static_cast<int64_t>(tokens));
  write_file_atomic("tiny/config.json", dump_json(config));
  const std::string room = run(recipe(), "b", {.sets = {"over_length=drop"}});
  has(room, fmt::format("prompts.jsonl:1: the prompt has {0} tokens, which leaves none of the "
                        "model's {0} for an answer",
                        tokens));
  EXPECT_FALSE(path_exists("b/metrics.jsonl"));
}

TEST_F(RolloutSources, AStalenessBelowTheDepthIsReportedBeforeStepZero) {
  ASSERT_EQ(run(recipe("depth = 2, staleness = 1"), "r", {.steps = 1}), "");
  EXPECT_TRUE(has(output_, "warning: staleness = 1 is below depth = 2: groups wait 2 steps"));
}

TEST_F(RolloutSources, ReinforcedTwiceAreRefusedWithoutACorrection) {
  const auto twice = [](const std::string& more) {
    return R"(
  rollouts.old_logprob = policy:token_logprob(rollouts)
  for mini in rollouts:minibatches { epochs = 2 } do
    run:log(adamw:step(mini, function(r)
      local ratio = (policy:token_logprob(r) - r.old_logprob):exp()
      return xrun.reinforce(policy:token_logprob(r), r.advantage))" +
           more + R"(, { ratio = ratio }
    end))
  end)";
  };
  has(run(recipe("", twice("")), "r"),
      "these answers were sampled 1 update ago, and xrun.reinforce has no ratio to old_logprob");
  EXPECT_EQ(run(recipe("", twice(" * r:truncated_ratio(2)")), "tis"), "");
}

TEST_F(RolloutSources, SeveralUpdatesWithoutOldLogprobsAreRefused) {
  const std::string twice = R"(
  for mini in rollouts:minibatches { epochs = 2 } do run:log(adamw:step(mini, plain)) end)";
  has(run(recipe("", twice), "r"),
      "these answers were sampled 1 update ago, and the objective reads the advantage but not "
      "old_logprob");
  EXPECT_EQ(run(recipe("", "run:log(adamw:step(rollouts, plain))"), "once"), "");
  EXPECT_EQ(values("once", "train/path_on_policy"), (Values{1, 1, 1, 1, 1}));
  // Plain likelihood of chosen answers needs no ratio.
  std::string best = twice;
  best.replace(best.find("plain"), 5, "function(r) return -policy:token_logprob(r) end");
  EXPECT_EQ(run(recipe("", best), "best"), "");
  EXPECT_TRUE(values("best", "train/path_on_policy").empty());
}

}  // namespace xrun::rollout_source_test
