// The record of rollouts has the answers of every step, also of one that fails or cannot write it.

#include "tests/lua/bind/rollout/lua_rollouts.h"

namespace xrun::rollout_record_test {

TEST_F(LuaRollouts, OfABodyThatBreakLeavesAreLogged) {
  std::string text = head(loop("run:log(adamw:step(rollouts, grpo)) if step == 1 then break end"));
  const std::string end = "run:export(policy)";
  for (const char* after : {"", "for _ in run:steps(data, cfg.batch) do break end"}) {
    std::string recipe = text;
    recipe.replace(recipe.find(end), end.size(), after);
    std::filesystem::remove_all("r");
    ASSERT_EQ(run(recipe, "r"), "");
    EXPECT_EQ(values("r", "rollout/reward").size(), 2u) << after;
    EXPECT_TRUE(path_exists("r/rollouts/step_0000001.jsonl.zst")) << after;
  }
}

TEST_F(LuaRollouts, AFullDiskWhileLoggingLosesNothing) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  ASSERT_EQ(run(recipe, "whole"), "");
  ASSERT_EQ(run(recipe, "r", {.steps = 2}), "");
  // A file with the name of the folder: the next body cannot write its rollouts.
  std::filesystem::rename("r/rollouts", "r/away");
  write_file_atomic("r/rollouts", "");
  has(run(recipe, "r", {.resume = true}), "r/rollouts");
  std::filesystem::remove("r/rollouts");
  std::filesystem::rename("r/away", "r/rollouts");
  ASSERT_EQ(run(recipe, "r", {.resume = true}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  EXPECT_EQ(read_file("r/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
}

TEST_F(LuaRollouts, AStepThatFailsAfterItsUpdateKeepsTheRecordOfItsAnswers) {
  const std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  ASSERT_EQ(run(recipe, "whole"), "");
  const std::string fails = head(
      loop("local m = adamw:step(rollouts, grpo) if step == 1 then error('stop') end run:log(m)"));
  has(run(fails, "r"), "stop");
  const std::string record = "/rollouts/step_0000001.jsonl.zst";
  EXPECT_EQ(decompressed("r" + record), decompressed("whole" + record));
}

TEST_F(LuaRollouts, AStepIsSavedWithoutTheRecordThatCannotBeWritten) {
  std::string recipe = head(loop("run:log(adamw:step(rollouts, grpo))"));
  // A file with the name of the folder.
  const std::string step = "run:log(adamw:step(rollouts, grpo))";
  recipe.insert(recipe.find(step),
                "if step == 1 then os.rename('r/rollouts', 'r/away') "
                "io.open('r/rollouts', 'w'):close() end ");
  has(run(recipe, "r"), "r/rollouts");
  has(output_, "step 1 has no record of its answers: r/rollouts");
  EXPECT_TRUE(path_exists("r/checkpoints/step_0000002/manifest.json"));
}

}  // namespace xrun::rollout_record_test
