#pragma once
// Recipes over sampled answers: twelve prompts, and the objects before the loop.

#include <fmt/format.h>

#include <string>

#include "tests/lua/bind/session_fixture.h"

namespace xrun {

class RolloutTest : public SessionTest {
 protected:
  RolloutTest() {
    std::string rows;
    for (int i = 0; i < 12; ++i) {
      rows += fmt::format(R"({{"prompt": "say {} ?", "digit": {}, "word": "w{}"}})", i, i % 4, i);
      rows += "\n";
    }
    write_file_atomic("prompts.jsonl", rows);
  }

  // The configuration with these further settings, a policy, its prompts and a GRPO objective.
  static std::string objects(const std::string& settings) {
    return R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "prompts.jsonl", keep = { "digit", "word" } } },
  template = "chatml", optim = { lr = 1e-2 }, sampling = { samples = 3, max_tokens = 6, temperature = 0.8 },
  clip = 0.2, )" +
           settings + R"(
}
local policy = xrun.policy(cfg.model)
local data = xrun.prompts(cfg.data, policy)
local adamw = xrun.adamw(policy, cfg.optim)
local function grpo(r)
  local ratio = (policy:token_logprob(r) - r.old_logprob):exp()
  local a = r:spread(r.advantage)
  return -(ratio * a):minimum(ratio:clamp(1 - cfg.clip, 1 + cfg.clip) * a), { ratio = ratio }
end
)";
  }
};

}  // namespace xrun
