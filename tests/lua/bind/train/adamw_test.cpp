// adamw:step from Lua: terms, options, errors.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::adamw_test {

using AdamWBinding = SessionTest;

TEST_F(AdamWBinding, TermsAddWithTheirWeights) {
  expect_same_when_resumed(head() + R"(
local function nll(p) return { token = -policy:token_logprob(p.all) } end
for step, batch in run:steps(train, cfg.batch) do
  local pair, token = run:evaluate(train, dpo).loss, run:evaluate(train, nll, "nll").loss
  local m = adamw:step({ { batch, dpo }, { batch, nll, weight = 0.5 } }, { lr = 1e-3 })
  assert(math.abs(m.lr - 1e-3) < 1e-12 and m.loss > pair)
  run:log(m)
end
)" + kExport,
                           {1, 3});
}

TEST_F(AdamWBinding, AWrongTermIsNamed) {
  const auto step = [&](const std::string& parts) {
    return run(head() + "for step, batch in run:steps(train, cfg.batch) do adamw:step(" + parts +
                   ") end\n",
               "r", {.resume = true});
  };
  has(step("{ { batch, dpo }, { batch } }"),
      "entry 2 of the step: objective: got nil, wanted a function");
  has(step("{ { batch, dpo, weight = 'a' } }"),
      "entry 1 of the step: weight: got \"a\", wanted a number");
  has(step("{ { valid, dpo } }"), "entry 1 of the step: batch: got DataSet");
  has(step("batch, dpo, { rl = 1 }"), "there is no option `rl`; options are lr");
}

// LibTorch names the operator whose result was changed; its advice for Python is left out.
TEST_F(AdamWBinding, AFailedBackwardPointsAtTheObjective) {
  const std::string changed = run(head() + R"(
local function bad(p)
  local ratio = (policy:logprob(p.chosen) - policy:logprob(p.rejected)):exp()
  local loss = ratio * 2
  ratio:add_(1)
  return loss
end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, bad) end
)",
                                  "r", {.resume = true});
  has(changed, ": exp: the backward pass of the objective failed: ");
  has(changed, "local ratio = (policy:logprob");
  has(changed, "called from");
  EXPECT_EQ(changed.find("anomaly"), std::string::npos) << changed;
  const std::string freed = run(head() + R"(
local w = xrun.ones(1):requires_grad_(true)
local y = w * w
local function bad(p) return (policy:logprob(p.chosen) - policy:logprob(p.rejected)) * y end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, bad) end
)",
                                "f", {.resume = true});
  has(freed, "the backward pass of the objective failed: Trying to backward through the graph");
  has(freed, " | local function bad(p) return");
  has(freed, "called from");
  has(freed, "compute it inside the objective, or detach it with xrun.keep");
  EXPECT_EQ(freed.find("autograd.grad"), std::string::npos) << freed;
}

TEST_F(AdamWBinding, AnOperatorWithoutAGradientIsNamedAtItsLine) {
  const std::string text = run(head() + R"(
local function bad(p)
  local chosen = policy:logprob(p.chosen)
  local next = chosen:nextafter(chosen * 0)
  return next - policy:logprob(p.rejected)
end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, bad) end
)",
                               "r", {.resume = true});
  has(text, ": nextafter: the backward pass of the objective failed: ");
  has(text, "is not implemented");
  has(text, "|   local next = chosen:nextafter");
  has(text, "called from");
}

TEST_F(AdamWBinding, ALossWithoutAGradientIsShownAtItsReturn) {
  const std::string text = run(head() + R"(
local function flat(p)
  local loss = policy:logprob(p.chosen):detach()
  return loss
end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, flat) end
)",
                               "r", {.resume = true});
  has(text, ": the loss does not depend on the trained weights: it has no gradient");
  has(text, "|   return loss");
  has(text, "called from");
}

TEST_F(AdamWBinding, OptionsGivenDirectlyAreChecked) {
  const auto make = [&](const std::string& optim) {
    return run(head() + "local other = xrun.adamw(policy, " + optim + ")\n", "r", {.resume = true});
  };
  has(make("{ lr = -1 }"), "optim.lr: got -1, wanted a number above 0");
  has(make("{ lr = 1, schedule = 'cosin' }"), "optim.schedule: got \"cosin\", wanted \"constant\"");
  has(make("{}"), "optim.lr is missing");
}

}  // namespace xrun::adamw_test
