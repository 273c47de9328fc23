// Runs that train an adapter with dropout: killed and resumed, with a reference of each phase.

#include "tests/lua/session_fixture.h"

namespace xrun {

using AdapterRun = SessionTest;

const std::vector<std::string> kDropout = {"lora.rank=4", "lora.dropout=0.3"};

TEST_F(AdapterRun, WithDropoutItResumesToTheSameBits) {
  const std::string recipe = head("fraction = 0.2") + R"(
for step, batch in run:steps(train, cfg.batch) do
  run:log(run:evaluate(valid, dpo))
  run:log(adamw:step(batch, dpo))
end
)" + kExport;
  expect_same_when_resumed(recipe, {1, 3}, kDropout);
  EXPECT_EQ(read_file("stopped_1/hf/adapter/adapter_model.safetensors"),
            read_file("whole/hf/adapter/adapter_model.safetensors"));
  const std::vector<std::string> dropped = metrics("whole");
  ASSERT_EQ(run(recipe, "kept", false, {}, {"lora.rank=4"}), "");
  EXPECT_NE(metrics("kept"), dropped) << "dropout changes nothing";
}

TEST_F(AdapterRun, APhaseWithItsReferenceResumesAnywhere) {
  expect_same_when_resumed(head() + R"(
local function sft(p) return { sequence = -policy:logprob(p.all) } end
for _, batch in run:steps(train, { pairs = 2, max_tokens = 600, steps = 2 }) do
  run:log(adamw:step(batch, sft))
end
local second = policy:reference()
local function later(p)
  local chosen = policy:logprob(p.chosen) - second:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - second:logprob(p.rejected)
  return -(cfg.beta * (chosen - rejected)):log_sigmoid(), { first = reference:logprob(p.chosen) }
end
for _, batch in run:steps(train, { pairs = 4, max_tokens = 600, steps = 2 }) do
  run:log(adamw:step(batch, later))
end
)" + kExport,
                           {1, 2, 3}, kDropout);
}

TEST_F(AdapterRun, AResumeWithAnotherRankIsRefused) {
  const std::string recipe = head() +
                             "for _, batch in run:steps(train, cfg.batch) do\n"
                             "  run:log(adamw:step(batch, dpo))\nend\n";
  ASSERT_EQ(run(recipe, "r", false, 2, {"lora.rank=4"}), "");
  has(run(recipe, "r", true, {}, {"lora.rank=2"}), "lora.rank");
  has(run(recipe, "r", true, {}, {"lora.rank=2"}, /*force=*/true), "it belongs to another model");
}

}  // namespace xrun
