// policy:sample, rewards, filters and minibatches from Lua, and runs over prompts.

#include <algorithm>

#include "core/data/rows/byte_stream.h"
#include "tests/lua/bind/rollout/rollout_fixture.h"

namespace xrun::rollouts_binding_test {

class LuaRollouts : public RolloutTest {
 protected:
  // Everything before the loop over prompts.
  static std::string head(const std::string& more = "") {
    return objects("batch = { prompts = 2, max_tokens = 600 }, steps = 4") +
           R"(local function reward(s) return s.ids[1] % 5 + s.digit, { even = s.ids[1] % 2 } end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
)" + more;
  }
  // A run of one body with this code in it.
  std::string body(const std::string& code, const std::string& dir = "r") {
    std::filesystem::remove_all(dir);
    return run(head("for step, prompts in run:steps(data, cfg.batch) do\n" + code + "\nend\n"), dir,
               false, 1);
  }
  static std::string decompressed(const std::string& path) {
    std::string text(1 << 22, '\0');
    text.resize(open_byte_stream(path, path)->read(text.data(), text.size()));
    return text;
  }
  static constexpr const char* kLoop = R"(
for step, prompts in run:steps(data, cfg.batch) do
  local rollouts = policy:sample(prompts, cfg.sampling):score(reward)
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  UPDATE
end
run:export(policy)
)";
  static std::string loop(const std::string& update) {
    std::string text = kLoop;
    return text.replace(text.find("UPDATE"), 6, update);
  }
};

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

TEST_F(LuaRollouts, AFailedRewardNamesPromptSampleAndText) {
  const auto failed = [&](const std::string& reward) {
    return body("policy:sample(prompts, cfg.sampling):score(function(s) " + reward +
                " end, { deadline_s = 0.2 })");
  };
  const std::string error =
      failed("local t = {} if s.index == 1 then return t.none.x end return 1");
  has(error, "prompts.jsonl:");
  has(error, ": the reward of sample 1 failed: test.lua:");
  has(error, "attempt to index field 'none' (a nil value)");
  has(error, "\n  prompt: ");
  has(error, "\n  answer: ");
  has(error, "on_error = \"mask\"");
  EXPECT_EQ(error.find('\n', error.find("\n  prompt: ") + 1), error.find("\n  answer: ")) << error;
  has(failed("return s.indx"), "the sample has no field `indx`; did you mean `index`?");
  has(failed("return s.quality"),
      "the sample has no field `quality`, which is neither one of a sample nor a column that `keep`");
  has(failed("return nil"), "failed: it is nil, wanted a finite number; is a `return` missing?");
  has(failed("return true"),
      "failed: it is true, wanted a finite number; write return right and 1 or 0");
  has(failed("return 0 / 0"), "failed: it is nan, wanted a finite number");
  has(failed("return '1'"), "failed: it is \"1\", wanted a finite number");
  has(failed("return 1, { a = 1 / 0 }"), "failed: its part `a` is inf, wanted a finite number");
  has(failed("return 1, 2"), "failed: its second value is 2, wanted a table of its parts");
  has(failed("while true do end"), "ran longer than 0.2 s");
  has(failed("while true do pcall(function() while true do end end) end"), "ran longer than 0.2 s");
  has(body("prompts:score(reward, cfg.sampling)"), "`score` is a method of rollouts");
  has(body("policy:sample(prompts, cfg.sampling):score(reward, { on_error = 'skip' })"),
      "on_error is \"skip\", wanted \"error\", \"mask\" or \"zero\"");
  has(body("policy:sample(prompts, { samples = cfg.sampling.samples, max_tokens = 0 })"),
      "max_tokens is 0");
}

// Rewards run in worker states, which have no session.
TEST_F(LuaRollouts, AMissingFieldIsExplainedByTheRowsOfTheData) {
  const auto failed = [&](const std::string& rows, const std::string& sets = "") {
    write_file_atomic("prompts.jsonl", rows);
    return run(objects("batch = { prompts = 2, max_tokens = 600 }, steps = 1") +
                   R"(local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, prompts in run:steps(data, cfg.batch) do
  policy:sample(prompts, cfg.sampling):score(function(s) return #s.word end)
end)",
               "missing" + std::to_string(rows.size()), false, {},
               sets.empty() ? std::vector<std::string>{} : std::vector{sets});
  };
  const std::string row = R"({"prompt": "a", "digit": 1)";
  has(failed(row + "}\n" + row + R"(, "word": "x"})" + "\n"),
      "the sample has no field `word`: the first row of prompts.jsonl has no \"word\", so `keep` "
      "leaves the column out; 1 of 2 rows have it; give every row the column, put a row that has "
      "it first, or leave out rows without it: filter = function(row) return row.word ~= nil end");
  has(failed(row + R"(, "solution": "x"})" + "\n"),
      "keep the right one and read it under its own name: keep = { \"solution\" }, or --set "
      "'data.1.keep={\"solution\"}' for the first source; a reward then reads s.solution; `fields` renames only");
  has(failed(row + R"(, "word": "x"})" + "\n", R"(data.1.keep={"digit"})"),
      "the sample has no field `word`: `keep` does not name the column of the data; data = {{ path");
}

TEST_F(LuaRollouts, AColumnOfDataRowsMayHaveTheNameOfAMethod) {
  write_file_atomic("scored.jsonl", R"({"prompt": "say", "score": 7})"
                                    "\n");
  has(run(R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "scored.jsonl", keep = { "score" } } }, template = "chatml",
  optim = { lr = 1e-2 }, batch = { prompts = 1, max_tokens = 600 }, steps = 1, loud = true,
}
local policy = xrun.policy(cfg.model)
local data = xrun.prompts(cfg.data, policy)
local run = xrun.run(cfg, { policy = policy, adamw = xrun.adamw(policy, cfg.optim) })
for step, prompts in run:steps(data, cfg.batch) do
  assert(prompts.score[0]:item() == 7)
  if cfg.loud then policy:sample(prompts, { max_tokens = 2 }) end
end
)",
          "r"),
      "the prompts have a column \"score\", which is a field of rollouts; rename the column");
}

TEST_F(LuaRollouts, MaskTakesASampleOutOfItsGroupAndZeroGivesItZero) {
  EXPECT_EQ(body(R"(
local function some(s) if s.index == 1 then error("no") end return s.index + 4 end
local masked = policy:sample(prompts, cfg.sampling):score(some, { on_error = "mask" })
assert(masked.size == 4 and masked.reward[1]:item() == 6)
local a = xrun.group_advantage(masked.reward, masked.group, { scale = false })
assert(a[0]:item() == -1 and a[1]:item() == 1, "the group has two members")
local zero = policy:sample(prompts, cfg.sampling):score(some, { on_error = "zero" })
assert(zero.size == 6 and zero.reward[1]:item() == 0)
local none = policy:sample(prompts, cfg.sampling):score(function() end, { on_error = "mask" })
assert(none.size == 0 and none.reward:numel() == 0 and #none.finish == 0)
assert(none:filter(function() return true end):score(function() return 1 end).size == 0)
none.advantage = xrun.group_advantage(none.reward, none.group)
assert(adamw:step(none, grpo).skipped)
run:log(adamw:step(zero:filter(function(s) return s.index == 0 end), function(r)
  return -policy:token_logprob(r) end))
)"),
            "");
  has(output_, "2 of 6 rewards failed and are left out; the first:\nprompts.jsonl:");
  has(output_, "2 of 6 rewards failed and count as 0");
  EXPECT_NE(metrics("r")[0].find("\"rollout/failed_rewards\":10"), std::string::npos)
      << metrics("r")[0];
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
  ASSERT_EQ(run(recipe, "r", false, 2, folds), "");
  const size_t at = output_.find("step 0: folds ");
  ASSERT_NE(at, std::string::npos) << output_;
  has(output_, "computed as");
  has(read_file("r/log.txt"), "step 0: folds ");
  EXPECT_EQ(output_.find("folds "), at + 8) << "not of the prompts: " << output_;
  EXPECT_EQ(output_.find("folds ", at + 10), std::string::npos) << output_;
  const Json fold = read_json("r/run.json").at("fold");
  EXPECT_GT(fold.at("ratio").as_double(), 1.2);
  EXPECT_EQ(fold.at("deviation").as_double(), 0);
  // A resume checks again and keeps the record.
  ASSERT_EQ(run(recipe, "r", true, {}, folds), "");
  has(output_, "step 2: folds ");
  EXPECT_EQ(dump_json(read_json("r/run.json").at("fold")), dump_json(fold));
  ASSERT_EQ(run(recipe, "apart", false, {}, {"batch.fold=false"}), "");
  EXPECT_EQ(output_.find("folds"), std::string::npos) << output_;
  ASSERT_EQ(run(recipe, "whole", false, {}, folds), "");
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
  ASSERT_EQ(run(equal, "equal", false, {}, {"sampling.temperature=0.5"}), "");
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

TEST_F(LuaRollouts, OfABodyThatBreakLeavesAreLogged) {
  std::string text = head(loop("run:log(adamw:step(rollouts, grpo)) if step == 1 then break end"));
  const std::string end = "run:export(policy)";
  for (const char* after : {"", "for _ in run:steps(data, cfg.batch) do break end"}) {
    std::string recipe = text;
    recipe.replace(recipe.find(end), end.size(), after);
    std::filesystem::remove_all("r");
    ASSERT_EQ(run(recipe, "r"), "");
    EXPECT_EQ(values("r", "rollout/reward").size(), 2u) << after;
    EXPECT_TRUE(path_exists("r/rollouts/step_0000001.jsonl.zst")) << after;
  }
}

TEST_F(LuaRollouts, APromptWithoutRoomIsRefusedBeforeStepZeroIfTheSamplingIsKnown) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  has(run(recipe, "r", false, {}, {"sampling.max_tokens=590"}), "prompts.jsonl:1: a prompt of ");
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
  ASSERT_EQ(run(recipe, "r", true), "");
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
  ASSERT_EQ(run(recipe, "r", false, 2), "");
  ASSERT_EQ(run(recipe, "r", true), "");
  const std::vector<double> rewards = values("r", "rollout/reward");
  EXPECT_TRUE(has(output_, fmt::format("{:.4f} at step 0, {:.4f} at step 3\n", rewards.front(),
                                       rewards.back())));
  EXPECT_TRUE(has(output_, "1.0000 at step 0, 1.0000 at step 4\n"));
}

TEST_F(LuaRollouts, AScoreThatIsNotANumberNamesPromptAndAnswer) {
  std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  recipe.insert(recipe.find("for step"),
                "run:sample(policy, data, 0, { max_tokens = 2, score = function() return true end "
                "})\n");
  const std::string error = run(recipe, "r", false, 2);
  has(error, "failed: the score is true, wanted a finite number; write return right and 1 or 0");
  has(error, "\n  prompt: ");
  has(error, "\n  answer: ");
}

TEST_F(LuaRollouts, AnswersThatAreAllCutAreReportedOnce) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  ASSERT_EQ(run(recipe, "r", false, {}, {"sampling.max_tokens=1"}), "");
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

TEST_F(LuaRollouts, AFullDiskWhileLoggingLosesNothing) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  ASSERT_EQ(run(recipe, "whole"), "");
  ASSERT_EQ(run(recipe, "r", false, 2), "");
  // A file in place of the folder: the next body cannot write its rollouts.
  std::filesystem::rename("r/rollouts", "r/away");
  write_file_atomic("r/rollouts", "");
  has(run(recipe, "r", true), "r/rollouts");
  std::filesystem::remove("r/rollouts");
  std::filesystem::rename("r/away", "r/rollouts");
  ASSERT_EQ(run(recipe, "r", true), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  EXPECT_EQ(read_file("r/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
}

TEST_F(LuaRollouts, AStepThatFailsAfterItsUpdateKeepsTheRecordOfItsAnswers) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  ASSERT_EQ(run(recipe, "whole"), "");
  const std::string fails = head(
      loop("local m = adamw:step(rollouts, grpo) if step == 1 then error('stop') end run:log(m)"));
  has(run(fails, "r"), "stop");
  const std::string record = "/rollouts/step_0000001.jsonl.zst";
  EXPECT_EQ(decompressed("r" + record), decompressed("whole" + record));
}

TEST_F(LuaRollouts, AStepIsSavedWithoutTheRecordThatCannotBeWritten) {
  std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  // A file in place of the folder.
  const std::string step = "run:log(adamw:step(rollouts, grpo))";
  recipe.insert(recipe.find(step),
                "if step == 1 then os.rename('r/rollouts', 'r/away') "
                "io.open('r/rollouts', 'w'):close() end ");
  has(run(recipe, "r"), "r/rollouts");
  has(output_, "step 1 has no record of its answers: r/rollouts");
  EXPECT_TRUE(path_exists("r/checkpoints/step_0000002/manifest.json"));
}

}  // namespace xrun::rollouts_binding_test
