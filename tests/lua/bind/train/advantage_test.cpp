// xrun.group_advantage and xrun.reinforce from Lua.

#include "lua/bind/modules.h"
#include "tests/lua/bind/session_fixture.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::advantage_binding_test {

class LuaAdvantage : public LuaTest {
 protected:
  LuaAdvantage() { open_advantage(state_); }
};

constexpr const char* kGroups =
    "local reward = xrun.tensor({ 1, 2, 6, 0, 4 }, { dtype = 'f64' })\n"
    "local group = xrun.tensor({ 0, 0, 0, 1, 1 }, { dtype = 'i64' })\n"
    "local function list(t) local out = {} for i = 0, 4 do out[i + 1] = t[i]:item() end\n"
    "  return table.concat(out, ' ') end\n";

TEST_F(LuaAdvantage, TakesBaselineScaleAndEps) {
  EXPECT_EQ(
      run(std::string(kGroups) +
          "return list(xrun.group_advantage(reward, group, { scale = false })),\n"
          "  list(xrun.group_advantage(reward, group,\n"
          "    { baseline = 'leave_one_out', scale = false })),\n"
          "  list(xrun.group_advantage(reward / 8 ^ 0.5, group, { eps = 1 }):mul(4):round())"),
      "-2 -1 3 -2 2, -3 -1.5 4.5 -4 4, -1 -1 2 -1 1");
  error_has(std::string(kGroups) + "xrun.group_advantage(reward, group, { baseline = 'median' })",
            "baseline is \"median\", wanted \"mean\" or \"leave_one_out\"");
  error_has(std::string(kGroups) + "xrun.group_advantage(reward, group, { scales = true })",
            "there is no option `scales`");
}

TEST_F(LuaAdvantage, ReinforceOfPlainTensorsIsAScalar) {
  EXPECT_EQ(run("local logprob = xrun.tensor({ -1, -2 }, { dtype = 'f64' })\n"
                "local loss = xrun.reinforce(logprob, xrun.tensor({ 1, -3 }, { dtype = 'f64' }))\n"
                "return loss:dim(), loss:item()"),
            "0, -1.25");
}

using AdvantageRun = SessionTest;

TEST_F(AdvantageRun, ReinforceInsideAnObjectiveTakesAFieldOfTheBatch) {
  const std::string recipe = head() + R"(
local function loss(p) return { token = xrun.reinforce(policy:token_logprob(p.all), FIELD) } end
for step, batch in run:steps(train, cfg.batch) do
  batch:set_field("signed", xrun.arange(batch.size):add(-2.5), "sequence")
  run:log(adamw:step(batch, loss))
end
)";
  const auto with = [&](const std::string& field) {
    std::string text = recipe;
    return text.replace(text.find("FIELD"), 5, field);
  };
  EXPECT_EQ(run(with("p.all.signed"), "field"), "");
  has(run(with("p.all.signed * 1"), "other"), "write batch.signed_weight = w in the loop");
}

}  // namespace xrun::advantage_binding_test
