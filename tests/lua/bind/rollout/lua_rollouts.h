#pragma once
// Runs whose loop samples answers to its prompts, rewards them and trains on them.

#include <filesystem>
#include <string>

#include "tests/decompressed.h"
#include "tests/lua/bind/rollout/rollout_fixture.h"

namespace xrun {

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
               {.steps = 1});
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

}  // namespace xrun
