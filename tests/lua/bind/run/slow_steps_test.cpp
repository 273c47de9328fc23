// The memory and the progress lines of many steps: label Slow, left out of the quick suite.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::slow_steps_test {

using SlowSteps = SessionTest;

// The recipe writes its resident bytes twice and uses views, metrics and strings that it keeps in
// every step.
TEST_F(SlowSteps, TenThousandStepsOfALuaObjectiveKeepMemoryFlat) {
  ASSERT_EQ(run(head() + R"lua(
local function resident()
  collectgarbage() collectgarbage()
  local file = io.open("/proc/self/statm")
  local pages = file:read("*a"):match("^%d+ (%d+)")
  file:close()
  return tonumber(pages) * 4096
end
local function objective(p)
  local loss, metrics = dpo(p)
  local token = policy:token_logprob(p.chosen)
  metrics.mean = p.chosen:mean(token)
  metrics.length = p.chosen:sum(p.chosen:spread(p.chosen.length:float()))
  assert(#p.topic == p.size)
  return { pair = loss, token = -0.01 * policy:token_logprob(p.all) }, metrics
end
local before
for step, batch in run:steps(train, { pairs = 1, max_tokens = 600, steps = 10000 }) do
  batch.bonus = batch.row:float()
  run:log(adamw:step(batch, objective, { lr = 1e-5 }))
  if step == 2000 then before = resident() end
  if step == 9999 then
    local after = resident()
    assert(after < 1.05 * before, before .. " bytes became " .. after)
  end
end
)lua",
                "r", {.sets = {"batch.pairs=1"}}),
            "");
  has(read_file("r/log.txt"), "% of peak)");
}

}  // namespace xrun::slow_steps_test
