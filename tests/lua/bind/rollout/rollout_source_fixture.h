#pragma once
// Recipes over xrun.rollouts, and comparisons of the files that they write.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/decompressed.h"
#include "tests/lua/bind/rollout/rollout_fixture.h"

namespace xrun {

class RolloutSources : public RolloutTest {
 protected:
  static constexpr const char* kUpdate = "run:log(adamw:step(rollouts, grpo))";
  static constexpr const char* kReward =
      "return s.ids[1] % 2 + 0 * math.random(), { even = s.ids[1] % 2 }";

  // A recipe over xrun.rollouts with these further options, updates and reward.
  static std::string recipe(const std::string& options = "", const std::string& update = kUpdate,
                            const std::string& reward = kReward) {
    return objects("batch = { groups = 2, max_tokens = 600 }, steps = 5") +
           R"(local function plain(r) return -(policy:token_logprob(r) * r:spread(r.advantage)) end
local function reward(s) )" +
           reward + R"( end
local source = xrun.rollouts { prompts = data, sampling = cfg.sampling, reward = reward, )" +
           options + R"( }
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, rollouts in run:steps(source, cfg.batch) do
  rollouts.advantage = xrun.group_advantage(rollouts.reward, rollouts.group)
  )" + update +
           R"(
end
run:export(policy)
)";
  }
  void expect_same_files(const std::string& a, const std::string& b, int steps = 5) {
    for (int step = 0; step < steps; ++step) {
      const std::string file = fmt::format("/rollouts/step_{:07}.jsonl.zst", step);
      EXPECT_EQ(read_file(a + file), read_file(b + file)) << b << file;
    }
  }
  using Values = std::vector<double>;
};

}  // namespace xrun
