// Runs that train an adapter with dropout: killed and resumed, with a reference of each phase.

#include "tests/lua/bind/two_phases.h"

namespace xrun::adapter_run_test {

using AdapterRun = TwoPhases;

const std::vector<std::string> kDropout = {"lora.rank=4", "lora.dropout=0.3"};

TEST_F(AdapterRun, SlowWithDropoutItResumesToTheSameBits) {
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

TEST_F(AdapterRun, SlowAPhaseWithItsReferenceResumesAnywhere) {
  expect_same_when_resumed(two_phases("  run:log(adamw:step(batch, later))"), {1, 3, 4}, kDropout);
}

TEST_F(AdapterRun, AResumeWithAnotherRankIsRefused) {
  const std::string recipe = head() +
                             "for _, batch in run:steps(train, cfg.batch) do\n"
                             "  run:log(adamw:step(batch, dpo))\nend\n";
  ASSERT_EQ(run(recipe, "r", false, 2, {"lora.rank=4"}), "");
  has(run(recipe, "r", true, {}, {"lora.rank=2"}), "lora.rank");
  has(run(recipe, "r", true, {}, {"lora.rank=2"}, /*force=*/true), "it belongs to another model");
}

}  // namespace xrun::adapter_run_test
