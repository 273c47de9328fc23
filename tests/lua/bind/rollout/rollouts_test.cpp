// policy:sample, rewards, filters and minibatches from Lua, and runs over prompts.

#include <algorithm>

#include "tests/lua/bind/rollout/lua_rollouts.h"

namespace xrun::rollouts_binding_test {

TEST_F(LuaRollouts, AreABatchWithFieldsOfSampleAndPrompt) {
  EXPECT_EQ(body(R"(
local r = policy:sample(prompts, cfg.sampling)
assert(r.size == 6 and #r.text == 6 and #r.word == 6 and #r.finish == 6)
assert(r.group[3]:item() == 1 and r.sample[5]:item() == 2 and r.version:sum():item() == 0)
assert((policy:token_logprob(r) - r.old_logprob):abs():max():item() == 0)
local seen = 0
local scored = r:score(function(s)
  assert(s.word == r.word[seen + 1] and s.text == r.text[seen + 1] and s.index == seen % 3)
  assert(s.digit == r.digit[seen]:item() and s.group == math.floor(seen / 3))
  assert(#s.prompt_ids > 3 and #s.ids >= 1 and #s.ids <= 6 and s.prompt:find("say"))
  seen = seen + 1
  return seen
end)
assert(scored == r and r.reward[5]:item() == 6)
local late = r:filter(function(s) return s.reward > 4 end)
assert(late.size == 2 and late.reward[0]:item() == 5 and late.word[1] == r.word[5])
local by_group = policy:sample(prompts, cfg.sampling):score_groups(function(group)
  local out = {}
  for i, s in ipairs(group) do out[i] = 10 * s.group + #group - i end
  return out
end)
assert(by_group.reward[0]:item() == 2 and by_group.reward[5]:item() == 10)
local sizes = {}
for mini in r:minibatches { epochs = 2, groups = 1 } do sizes[#sizes + 1] = mini.size end
assert(table.concat(sizes, " ") == "3 3 3 3")
)"),
            "");
}

TEST_F(LuaRollouts, DependOnTheirSeedAndOnTheTokensThatAreLeft) {
  EXPECT_EQ(body(R"(
local function texts(more)
  local options = { samples = 2, max_tokens = cfg.sampling.max_tokens, drafts = false }
  for name, value in pairs(more) do options[name] = value end
  return table.concat(policy:sample(prompts, options).text, "|")
end
assert(texts { seed = 3 } == texts { seed = 3 } and texts { seed = 3 } ~= texts { seed = 4 })
local greedy = texts { temperature = 0 }
assert(texts { top_k = 1, seed = 5 } == greedy and texts { min_p = 1, seed = 5 } == greedy)
assert(texts { seed = 5 } ~= greedy)
)"),
            "");
}

TEST_F(LuaRollouts, AStepBeginsAtRatioOneAndLogsItsRollouts) {
  ASSERT_EQ(run(head(loop("run:log(adamw:step(rollouts, grpo))")), "r"), "");
  const std::vector<std::string> lines = metrics("r");
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) {
    const Json logged = parse_json(line, "metrics");
    EXPECT_EQ(logged.at("train/ratio").as_double(), 1);
    for (const char* name :
         {"rollout/reward", "rollout/reward_std", "rollout/reward/even", "rollout/length",
          "rollout/stopped", "rollout/groups", "rollout/zero_variance_groups"}) {
      EXPECT_NE(logged.find(name), nullptr) << name;
    }
  }
  EXPECT_TRUE(has(read_file("r/metrics.jsonl"), "perf/sample_s"));
  const std::string text = decompressed("r/rollouts/step_0000003.jsonl.zst");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
  EXPECT_TRUE(has(text, "\"trained\":true"));
  EXPECT_TRUE(has(text, "\"parts\":{\"even\":"));
}

TEST_F(LuaRollouts, AreCheckedAndReportedAtTheFirstUpdateIfTheyFold) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  const std::vector<std::string> folds = {"batch.fold_min=4"};
  ASSERT_EQ(run(recipe, "r", {.steps = 2, .sets = folds}), "");
  const size_t at = output_.find("step 0: folds ");
  ASSERT_NE(at, std::string::npos) << output_;
  has(output_, "computed as");
  has(read_file("r/log.txt"), "step 0: folds ");
  EXPECT_EQ(output_.find("folds "), at + 8) << "not of the prompts: " << output_;
  EXPECT_EQ(output_.find("folds ", at + 10), std::string::npos) << output_;
  const Json fold = read_json("r/run.json").at("fold");
  EXPECT_GT(fold.at("ratio").as_double(), 1.2);
  EXPECT_EQ(fold.at("deviation").as_double(), 0);
  // A resume checks again; the record stays.
  ASSERT_EQ(run(recipe, "r", {.resume = true, .sets = folds}), "");
  has(output_, "step 2: folds ");
  EXPECT_EQ(dump_json(read_json("r/run.json").at("fold")), dump_json(fold));
  ASSERT_EQ(run(recipe, "apart", {.sets = {"batch.fold=false"}}), "");
  EXPECT_EQ(output_.find("folds"), std::string::npos) << output_;
  ASSERT_EQ(run(recipe, "whole", {.sets = folds}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  EXPECT_EQ(read_file("r/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
}

TEST_F(LuaRollouts, AResumeRepeatsTheSameBitsAndFiles) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  expect_same_when_resumed(recipe, {1, 2, 3});
  for (int step = 0; step < 4; ++step) {
    const std::string file = fmt::format("/rollouts/step_{:07}.jsonl.zst", step);
    for (const char* dir : {"stopped_1", "stopped_2", "stopped_3"}) {
      EXPECT_EQ(read_file(dir + file), read_file("whole" + file)) << dir << file;
    }
  }
}

TEST_F(LuaRollouts, SlowSeveralUpdatesOfABodyResumeToTheSameBits) {
  expect_same_when_resumed(head(loop(R"(
  for mini in rollouts:minibatches { epochs = 2, groups = 1 } do run:log(adamw:step(mini, grpo)) end)")),
                           {1, 3});
}

TEST_F(LuaRollouts, ABodyOfSeveralUpdatesLogsTheirMeans) {
  ASSERT_EQ(run(head(loop(R"(
  local sum, count = 0, 0
  for mini in rollouts:minibatches { epochs = 2, groups = 1 } do
    local m = adamw:step(mini, grpo)
    run:log(m)
    sum, count = sum + m.loss, count + 1
  end
  run:log { mean = sum / count, count = count })")),
                "r"),
            "");
  for (const std::string& line : metrics("r")) {
    const Json logged = parse_json(line, "metrics");
    EXPECT_EQ(logged.at("train/updates").as_double(), 4);
    EXPECT_NEAR(logged.at("train/loss").as_double(), logged.at("recipe/mean").as_double(), 1e-12);
    EXPECT_NE(logged.at("train/ratio").as_double(), 1);
  }
}

TEST_F(LuaRollouts, EqualRewardsAndTruncatedDrawsAreReportedOnce) {
  const std::string plain = head(loop("run:log(adamw:step(rollouts, grpo))"));
  ASSERT_EQ(run(plain, "plain"), "");
  EXPECT_EQ(output_.find("all rewards are equal"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("old_logprob"), std::string::npos);
  std::string equal = plain;
  equal.replace(equal.find("s.ids[1] % 5 + s.digit"), 22, "1");
  ASSERT_EQ(run(equal, "equal", {.sets = {"sampling.temperature=0.5"}}), "");
  const std::string line = "step 0: in every group all rewards are equal (mean 1.0000)";
  has(output_, line);
  EXPECT_EQ(output_.find("all rewards are equal", output_.find(line) + line.size()),
            std::string::npos);
  std::string truncated = plain;
  truncated.replace(truncated.find("temperature = 0.8"), 17, "top_p = 0.9");
  ASSERT_EQ(run(truncated, "truncated"), "");
  const size_t at = output_.find("change the answers that are drawn, but not old_logprob");
  ASSERT_NE(at, std::string::npos) << output_;
  EXPECT_EQ(output_.find("old_logprob", at + 60), std::string::npos);
}

TEST_F(LuaRollouts, OfAnEarlierBodyMayBeTrained) {
  ASSERT_EQ(run(head(R"(
local last
for step, prompts in run:steps(data, cfg.batch) do
  if last then run:log(adamw:step(last, grpo)) end
  last = nil
  if step % 2 == 0 then
    last = policy:sample(prompts, cfg.sampling):score(reward)
    last.advantage = xrun.group_advantage(last.reward, last.group)
  end
end
)"),
                "r"),
            "");
  EXPECT_TRUE(has(output_, "step 1: 1 update, loss: the mean over "));
  EXPECT_TRUE(path_exists("r/rollouts/step_0000002.jsonl.zst"));
  EXPECT_FALSE(path_exists("r/rollouts/step_0000001.jsonl.zst")) << "nothing was sampled there";
}

TEST_F(LuaRollouts, APromptWithoutRoomIsRefusedBeforeStepZeroIfTheSamplingIsKnown) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  has(run(recipe, "r", {.sets = {"sampling.max_tokens=590"}}), "prompts.jsonl:1: a prompt of ");
  EXPECT_FALSE(path_exists("r/metrics.jsonl"));
}

TEST_F(LuaRollouts, APromptWithoutRoomEndsItsStepAndLosesNothing) {
  std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  const std::string known = "cfg.sampling):score";
  recipe.replace(recipe.find(known), known.size(),
                 "{ samples = 3, max_tokens = step == 2 and io.open('fail') and 590 or "
                 "cfg.sampling.max_tokens }):score");
  ASSERT_EQ(run(recipe, "whole"), "");
  write_file_atomic("fail", "");
  const std::string error = run(recipe, "r");
  has(error, "tokens and max_tokens = 590 of an answer exceed batch.max_tokens = 600; raise it to");
  has(error, "prompts.jsonl:");
  std::filesystem::remove("fail");
  ASSERT_EQ(run(recipe, "r", {.resume = true}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  EXPECT_EQ(read_file("r/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
}

TEST_F(LuaRollouts, TheSummaryHasTheFirstAndTheLastRewardAndScore) {
  std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  recipe.insert(recipe.find("for step"),
                "local function ask() run:log(run:sample(policy, data, 0, "
                "{ max_tokens = 2, score = function() return 1 end })) "
                "end\nask()\n");
  recipe += "ask()\n";
  ASSERT_EQ(run(recipe, "r", {.steps = 2}), "");
  ASSERT_EQ(run(recipe, "r", {.resume = true}), "");
  const std::vector<double> rewards = values("r", "rollout/reward");
  EXPECT_TRUE(has(output_, fmt::format("{:.4f} at step 0, {:.4f} at step 3\n", rewards.front(),
                                       rewards.back())));
  EXPECT_TRUE(has(output_, "1.0000 at step 0, 1.0000 at step 4\n"));
}

TEST_F(LuaRollouts, AnswersThatAreAllCutAreReportedOnce) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  ASSERT_EQ(run(recipe, "r", {.sets = {"sampling.max_tokens=1"}}), "");
  const std::string line = "step 0: none of 6 answers ended by itself";
  ASSERT_TRUE(has(output_, line));
  EXPECT_EQ(output_.find("ended by itself", output_.find(line) + line.size()), std::string::npos);
}

TEST_F(LuaRollouts, UnderAValueHeadAreWatched) {
  std::string recipe = head(loop("run:log(critic:step(rollouts, grpo))"));
  recipe.insert(
      recipe.find("local run ="),
      "local scorer = xrun.scorer(policy)\nlocal critic = xrun.adamw(scorer, cfg.optim)\n");
  const std::string objects = "adamw = adamw";
  recipe.replace(recipe.find(objects), objects.size(), "scorer = scorer, critic = critic");
  recipe.erase(recipe.find("run:export(policy)"));
  ASSERT_EQ(run(recipe, "r"), "");
  EXPECT_EQ(values("r", "train/path_on_policy"), (std::vector<double>{1, 1, 1, 1}));
}

}  // namespace xrun::rollouts_binding_test
