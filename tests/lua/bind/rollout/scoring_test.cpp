// Rewards and scores that fail name prompt, sample and answer; on_error decides what follows.

#include "tests/lua/bind/rollout/lua_rollouts.h"

namespace xrun::scoring_test {

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
      "the sample has no field `quality`, which is neither a field of samples nor a column that "
      "`keep`");
  has(failed("return nil"), "failed: it is nil, wanted a finite number; is a `return` missing?");
  has(failed("return true"),
      "failed: it is true, wanted a finite number; write `return right and 1 or 0`");
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
               "missing" + std::to_string(rows.size()),
               {.sets = sets.empty() ? std::vector<std::string>{} : std::vector{sets}});
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

TEST_F(LuaRollouts, AScoreThatIsNotANumberNamesPromptAndAnswer) {
  std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  recipe.insert(recipe.find("for step"),
                "run:sample(policy, data, 0, { max_tokens = 2, score = function() return true end "
                "})\n");
  const std::string error = run(recipe, "r", {.steps = 2});
  has(error, "failed: the score is true, wanted a finite number; write `return right and 1 or 0`");
  has(error, "\n  prompt: ");
  has(error, "\n  answer: ");
}

}  // namespace xrun::scoring_test
