// xrun.ema from Lua: evaluation and export of the average, its checkpoint, its errors.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::ema_binding_test {

using EmaBinding = SessionTest;

std::string averaged(std::string head) {
  const std::string saved = "{ policy = policy, adamw = adamw }";
  head.replace(head.find(saved), saved.size(), "{ policy = policy, adamw = adamw, ema = ema }");
  const std::string run = "local run = ";
  return head.replace(head.find(run), run.size(),
                      "local ema = xrun.ema(policy, { decay = 0.5 })\nlocal run = ");
}

TEST_F(EmaBinding, SlowTheAverageEvaluatesExportsAndResumes) {
  const std::string text = averaged(head()) + R"(
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, dpo))
  local before = policy:digest()
  local m, second = ema:use(function()
    assert(policy:digest() ~= before)
    return run:evaluate(valid, dpo, "ema"), "two"
  end)
  assert(policy:digest() == before and second == "two")
  run:log(m)
end
assert(ema.update_count <= 4 and ema.decay == 0.5)
ema:use(function() run:export(policy, "averaged") end)
)" + kExport;
  expect_same_when_resumed(text, {1, 3});
  EXPECT_EQ(values("whole", "valid/ema/loss").size(), 4u);
  const std::string averaged_weights = read_file("whole/averaged/model.safetensors");
  EXPECT_NE(averaged_weights, read_file("whole/hf/model.safetensors"));
  EXPECT_EQ(averaged_weights, read_file("stopped_1/averaged/model.safetensors"));
}

TEST_F(EmaBinding, AnErrorInsidePutsTheWeightsBack) {
  const std::string text = averaged(head()) + R"(
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, dpo))
  local before = policy:digest()
  local ok, message = pcall(function() ema:use(function() error("oops") end) end)
  assert(not ok and tostring(message):find("oops") and policy:digest() == before)
  if step == 1 then ema:use(function() adamw:step(batch, dpo) end) end
end
)";
  has(run(text, "r"), "an update inside ema:use, while the weights are the average");
}

TEST_F(EmaBinding, NeedsAnOptimizerAndADecay) {
  std::string text = head();
  const std::string adamw = "local adamw = ";
  has(run(text.insert(text.find(adamw), "xrun.ema(policy)\n"), "a"),
      "xrun.ema follows the updates of an optimizer, and none trains this policy yet");
  has(run(head() + "xrun.ema(policy, { decay = 1.5 })\n", "b"), "decay is 1.5, wanted a number");
}

}  // namespace xrun::ema_binding_test
