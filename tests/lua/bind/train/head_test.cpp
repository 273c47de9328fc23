// policy:head from Lua: the outputs over the vocabulary that an objective can read.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::head_test {

using HeadBinding = SessionTest;

TEST_F(HeadBinding, AgreesWithTheLogits) {
  EXPECT_EQ(run(head() + R"(
local function check(p)
  local view = p.rejected
  local got = policy:head(view, { entropy = true, lse = true, top_k = 3, temperature = 0.7 })
  local z = policy:logits(view) / 0.7
  local all = z:log_softmax(-1)
  local function near(a, b) assert((a - b):abs():max():item() < 1e-5) end
  near(got.entropy, -(all:exp() * all):sum(-1))
  near(got.lse, z:logsumexp({ -1 }))
  near(got.top_logprob, (all:topk(3, -1)))
  near(got.top_logprob, all:gather(-1, got.top_id))
  local again = policy:head(view, { targets = got.top_id, temperature = 0.7 })
  near(again.logprob, got.top_logprob)
  assert(again.entropy == nil and again.top_id == nil)
  near(policy:head(view).logprob, policy:token_logprob(view))
  near(policy:head(p, { columns = #xrun.tokenizer(policy.dir) }).logprob, policy:token_logprob(p))
  return (dpo(p))
end
for step, batch in run:steps(train, cfg.batch) do
  local whole = policy:head(batch, { lse = true })
  assert((whole.logprob - policy:token_logprob(batch)):abs():max():item() < 1e-5)
  assert(whole.lse:size(0) == whole.logprob:size(0) and not whole.lse.requires_grad)
  adamw:step(batch, check)
end
)",
                "r"),
            "");
}

// Values against the formulas over all logits in fp64. The gradient of their difference reaches
// every weight, through the backward of the fused head on one side and of autograd on the other,
// and must be small beside the gradient of either.
TEST_F(HeadBinding, EntropyAndZLossEqualTheirFormulas) {
  EXPECT_EQ(run(head() + R"(
local formulas = {
  z_loss  = function(z) return z:logsumexp({ -1 }):square() end,
  entropy = function(z) local l = z:log_softmax(-1); return -(l:exp() * l):sum(-1) end,
}
local function terms(name, p)
  local got  = policy[name](policy, p.all)
  local want = formulas[name](policy:logits(p.all):double())
  assert(got.requires_grad and got:size(0) == want:size(0))
  assert(((got - want):abs():max() / want:abs():max()):item() < 1e-5)
  local weight = xrun.arange(got:size(0)):remainder(7) - 2
  return weight * got, weight * want
end
for step, batch in run:steps(train, cfg.batch) do
  local name  = step % 2 == 0 and "z_loss" or "entropy"
  local apart = adamw:step(batch, function(p)
    local got, want = terms(name, p)
    return { token = (got - want):float() }
  end, { lr = 0 })
  local whole = adamw:step(batch, function(p) return { token = (terms(name, p)) } end)
  assert(whole.grad_norm > 1e-3 and apart.grad_norm < 1e-5 * whole.grad_norm,
         ("%s: %g beside %g"):format(name, apart.grad_norm, whole.grad_norm))
  assert(not policy[name](policy, batch).requires_grad)
end
)",
                "r"),
            "");
}

TEST_F(HeadBinding, AReferencesHeadUsesTheFrozenWeights) {
  EXPECT_EQ(run(head() + R"(
local function near(a, b) return (a - b):abs():max():item() < 1e-5 end
for step, batch in run:steps(train, cfg.batch) do
  local whole = reference:head(batch, { lse = true })
  assert(near(whole.logprob, reference:token_logprob(batch)))
  adamw:step(batch, function(p)
    local options = { entropy = true, top_k = 3 }
    local now, frozen = policy:head(p.chosen, options), reference:head(p.chosen, options)
    assert(now.entropy.requires_grad and not frozen.entropy.requires_grad)
    assert(near(now.entropy, frozen.entropy) == (step == 0), step)
    local scored = reference:head(p.chosen, { targets = now.top_id })
    assert(step > 0 or near(scored.logprob, now.top_logprob))
    return (dpo(p))
  end)
end
reference:digest()
)",
                "r"),
            "");
  has(run(head() + "for _, batch in run:steps(train, cfg.batch) do\n"
                   "  reference:head(batch, { top = 3 })\nend\n",
          "s"),
      "there is no option `top`");
}

TEST_F(HeadBinding, SlowAnEntropyBonusTrainsAndResumesToTheSameBits) {
  const std::string text = head() + R"(
local function entropy(p)
  local view = p.chosen
  local got = policy:head(view, { entropy = true })
  return -view:mean(got.logprob) - 0.5 * view:mean(got.entropy), { entropy = view:mean(got.entropy) }
end
for step, batch in run:steps(train, cfg.batch) do
  run:log(run:evaluate(valid, entropy))
  run:log(adamw:step(batch, entropy))
end
)" + kExport;
  expect_same_when_resumed(text, {2});
  const auto value = [&](size_t line, const char* name) {
    return parse_json(metrics("whole").at(line), "metrics").at(name).as_double();
  };
  EXPECT_LT(value(3, "valid/loss"), value(0, "valid/loss"));
}

TEST_F(HeadBinding, ABadOptionIsNamedWithItsLine) {
  const auto objective = [&](const std::string& arguments) {
    return run(head() + "for step, batch in run:steps(train, cfg.batch) do\n" +
                   "  adamw:step(batch, function(p)\n    policy:head(" + arguments +
                   ")\n    return (dpo(p))\n  end)\nend\n",
               "r", {.force = true});
  };
  const std::string typo = objective("p.chosen, { entropi = true }");
  has(typo, "test.lua:19: ");
  has(typo, "there is no option `entropi`");
  has(typo, "did you mean `entropy`?");
  has(objective("p.chosen, { temperature = 0 }"),
      "test.lua:19: Policy:head: linear_head: temperature is 0, wanted a number from 1e-06 to "
      "1e+30");
  has(objective("p.chosen, { top_k = -1 }"),
      "test.lua:19: Policy:head: linear_head: top_k is -1, wanted 0 to");
  has(objective("p.chosen, { top_k = 1.5 }"), "option `top_k`: got 1.5");
  has(objective("p.chosen, { columns = 1e6 }"), "linear_head: columns is 1000000, wanted 1 to the");
  has(objective("p.chosen, { targets = xrun.zeros({ 2 }, { dtype = 'i64' }) }"),
      "targets are [2], wanted [");
  has(objective("p.chosen, { targets = policy:token_logprob(p.chosen) }"),
      "targets are Float, wanted whole numbers (i64)");
  has(objective("p.chosen, { targets = policy:head(p.chosen, { top_k = 1 }).top_id + 1e6 }"),
      "outside the vocabulary of");
  has(objective("batch, { targets = batch.row }"), "targets are of a view's rows");
  has(objective("3"), "got 3, wanted a View");
}

}  // namespace xrun::head_test
