// :reload restarts a recipe from its file and returns to the same step.

#include "tests/lua/prompt/verbs_fixture.h"

namespace xrun::reload_test {
namespace {

class Reload : public Verbs {};

TEST_F(Reload, ContinuesFromTheSameStepWithTheSameWeights) {
  open(head() + loop_);
  say("step()");
  const std::string second = say("step()");
  say("again()");
  open(head() + loop_);
  say("step()");
  write_file_atomic("test.lua", head() + "local note = 'edited'\n" + loop_);
  EXPECT_TRUE(says(":reload", "paused before step 1 with the weights as they are"));
  EXPECT_EQ(say("note"), "\"edited\"");
  const std::string reloaded = say("step()");
  EXPECT_EQ(reloaded.substr(0, reloaded.find("perf/")), second.substr(0, second.find("perf/")));
  write_file_atomic("test.lua", head() + "local note = = 1\n" + loop_);
  EXPECT_TRUE(says(":reload", "failed: test.lua:17"));
  EXPECT_EQ(say("note"), "\"edited\"");
  std::string changed = head() + loop_;
  changed.replace(changed.find("beta = 0.1"), 10, "beta = 0.3");
  write_file_atomic("test.lua", changed);
  EXPECT_TRUE(says(":reload", "its config changed, so it is paused before step 0"));
  EXPECT_EQ(say("cfg.beta"), "0.3");
}

// The recipe has moved on since: an earlier step and its weights must not come back.
TEST_F(Reload, ARejectedTextLeavesNothingToCarryOver) {
  open(head() + loop_);
  say("step()");
  write_file_atomic("test.lua", head() + "local note = = 1\n" + loop_);
  EXPECT_TRUE(says(":reload", "failed: test.lua:17"));
  say("continue()");
  EXPECT_TRUE(paused_->done());
  write_file_atomic("test.lua", head() + loop_);
  EXPECT_TRUE(says(":reload", "paused before step 0 with the weights of the model's folder"));
}

TEST_F(Reload, SaysWhichSettingsOfThePromptAreUndone) {
  open(head() + loop_);
  say(":set beta 0.3");
  say(":set beta 0.4");
  EXPECT_TRUE(says(":reload", "; :set is undone for beta"));
  EXPECT_EQ(say("cfg.beta"), "0.1");
  EXPECT_EQ(say(":reload").find(":set"), std::string::npos);
}

TEST_F(Reload, KeepsTheRunsState) {
  const std::string counted =
      "for step, batch in run:steps(train, cfg.batch) do\n"
      "  run.state.bodies = (run.state.bodies or 0) + 1\n"
      "  run:log(adamw:step(batch, dpo))\nend\n";
  open(head() + counted);
  say("continue(2)");
  EXPECT_TRUE(says(":reload", "paused before step 2"));
  EXPECT_EQ(say("run.state.bodies"), "2");
  say("step()");
  EXPECT_EQ(say("run.state.bodies"), "3");
}

TEST_F(Reload, ReadsModulesAgain) {
  write_file_atomic("part.lua", "return { size = 1 }\n");
  open(head() + "local part = require \"./part\"\n" + loop_);
  EXPECT_EQ(say("part.size"), "1");
  write_file_atomic("part.lua", "return { size = 2 }\n");
  say(":reload");
  EXPECT_EQ(say("part.size"), "2");
}

TEST_F(Reload, AnErrorDuringTheReplayLosesNoWeights) {
  open(head() + loop_);
  say("step()");
  const std::string second = say("step()");
  open(head() + loop_);
  say("step()");
  write_file_atomic("test.lua", head() + "error 'not yet'\n" + loop_);
  EXPECT_TRUE(says(":reload", "failed: test.lua:17: not yet"));
  write_file_atomic("test.lua", head());
  EXPECT_TRUE(says(":reload", "it ends without a loop"));
  write_file_atomic("test.lua", head() + loop_);
  EXPECT_TRUE(says(":reload", "paused before step 1 with the weights as they are"));
  const std::string reloaded = say("step()");
  EXPECT_EQ(reloaded.substr(0, reloaded.find("perf/")), second.substr(0, second.find("perf/")));
}

TEST_F(Reload, ARecipeThatDidNotLoadKeepsItsSettings) {
  open("local a = = 1\n", {"beta=0.7"});
  EXPECT_FALSE(session_->resolved());
  write_file_atomic("test.lua", head() + loop_);
  EXPECT_TRUE(says(":reload", "paused before step 0"));
  EXPECT_EQ(say("cfg.beta"), "0.7");
}

}  // namespace
}  // namespace xrun::reload_test
