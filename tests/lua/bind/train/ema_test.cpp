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
  has(run(text, "r"), "cannot update inside ema:use, where the weights are the average");
}

TEST_F(EmaBinding, InsideAnObjectiveIsRefused) {
  const std::string text = averaged(head()) + R"(
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, function(p) return ema:use(function() return dpo(p) end) end))
end
)";
  has(run(text, "r"), "ema:use inside an objective: it exchanges all weights");
}

TEST_F(EmaBinding, NeedsAnOptimizerAndADecay) {
  std::string text = head();
  const std::string adamw = "local adamw = ";
  has(run(text.insert(text.find(adamw), "xrun.ema(policy)\n"), "a"),
      "xrun.ema follows the updates of an optimizer, and none trains this policy yet");
  has(run(head() + "xrun.ema(policy, { decay = 1.5 })\n", "b"), "decay is 1.5, wanted a number");
}

TEST_F(EmaBinding, OfAPolicyUnderAScorerNamesTheScorer) {
  std::string text = head();
  const std::string adamw = "xrun.adamw(policy,";
  text.replace(text.find(adamw), adamw.size(), "xrun.adamw(xrun.scorer(policy),");
  has(run(text + "xrun.ema(policy)\n", "a"),
      "the optimizer trains a scorer over this policy; write xrun.ema(scorer)");
}

// A resume would begin them again, and no metric would show it.
TEST_F(EmaBinding, AnAverageOrOptimizerThatIsNotSavedIsReported) {
  const std::string loop =
      "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end\n";
  const std::string average =
      "warning: an average of xrun.ema is not given to xrun.run, so a resume begins it again: "
      "write xrun.run(cfg, { policy = policy, adamw = adamw, ema = ema })";
  const std::string optimizer =
      "warning: the optimizer `adamw` is not given to xrun.run, so a resume begins its moments "
      "again: write xrun.run(cfg, { policy = policy, adamw = adamw })";
  ASSERT_EQ(run(averaged(head()) + loop, "a"), "");
  EXPECT_EQ(output_.find("not given"), std::string::npos) << output_;
  std::string text = head();
  const std::string made = "local run = ";
  text.insert(text.find(made), "local ema = xrun.ema(policy)\n");
  ASSERT_EQ(run(text + loop, "b"), "");
  has(output_, average);
  EXPECT_EQ(output_.find(optimizer), std::string::npos) << output_;
  const std::string objects = "policy = policy, adamw = adamw }";
  text.replace(text.find(objects), objects.size(), "policy = policy }");
  ASSERT_EQ(run(text + loop, "c"), "");
  has(output_, optimizer);
  has(output_, average);
  text = head();
  text.insert(text.find(made), "local second = xrun.adamw(policy, cfg.optim)\n");
  ASSERT_EQ(run(text + loop, "d"), "");
  has(output_,
      "warning: the optimizer `second` is not given to xrun.run, so a resume begins its moments "
      "again: write xrun.run(cfg, { adamw = adamw, policy = policy, second = second })");
}

}  // namespace xrun::ema_binding_test
