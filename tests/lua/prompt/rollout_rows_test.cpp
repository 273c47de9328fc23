// rows{ by = "reward" }: the answers that the last body sampled.

#include "tests/lua/prompt/verbs_fixture.h"

namespace xrun::rollout_rows_test {

TEST_F(Verbs, RowsShowSampledAnswersByReward) {
  write_file_atomic("prompts.jsonl", "{\"prompt\": \"say a ?\"}\n{\"prompt\": \"say b ?\"}\n");
  open(R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "prompts.jsonl" } }, template = "chatml",
  optim = { lr = 1e-2 }, batch = { prompts = 2, max_tokens = 600 }, steps = 4,
}
local policy = xrun.policy(cfg.model)
local adamw = xrun.adamw(policy, cfg.optim)
local function reward(s) return s.group * 3 + s.index, { third = s.index / 3 } end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, prompts in run:steps(xrun.prompts(cfg.data, policy), cfg.batch) do
  local r = policy:sample(prompts, { samples = 3, max_tokens = 5 }):score(reward)
  r.advantage = xrun.group_advantage(r.reward, r.group, { scale = false })
  run:log(adamw:step(r, function(r) return -policy:token_logprob(r) * r:spread(r.advantage) end))
end
)");
  EXPECT_TRUE(says("rows{ by = 'reward', group = 1 }", "no answer of that group has a reward yet"));
  say("step()");
  const std::string lowest = say("rows{ by = 'reward', n = 2 }");
  EXPECT_TRUE(has(lowest,
                  "reward of 6 sampled answers, the lowest first\n"
                  "reward 0 (third 0) · advantage -1 · "));
  EXPECT_TRUE(has(lowest, "group 0, sample 0, prompts.jsonl:"));
  EXPECT_TRUE(has(lowest, "\n  prompt    "));
  EXPECT_TRUE(has(lowest, "\nreward 1 (third 0.3333) · advantage 0 · "));
  EXPECT_EQ(lowest.find("reward 2"), std::string::npos);
  EXPECT_EQ(say("rows{ by = 'reward', highest = true }[1].reward"), "5");
  EXPECT_EQ(say("rows{ by = 'third', group = 1, highest = true }[1].reward"), "5");
  EXPECT_EQ(say("#rows{ by = 'length', group = 0 }"), "3");
  EXPECT_TRUE(says("rows{ by = 'nothing', group = 0 }", "no answer of that group has a nothing"));
}

}  // namespace xrun::rollout_rows_test
