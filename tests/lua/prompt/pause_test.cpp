// A run that pauses between two bodies continues as if it had not.

#include <csignal>

#include "core/base/interrupt.h"
#include "core/run/signals.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/pause_hooks.h"
#include "tests/lua/bind/run/two_phases.h"

namespace xrun::pause_test {
namespace {

class Pause : public TwoPhases {
 protected:
  // Runs test.lua with pauses; notes the step of each. Returns "" or its error.
  std::string run_with(const std::string& text, const std::string& dir,
                       std::optional<int64_t> repl_at,
                       const std::function<void(PauseHooks&)>& visit = {}) {
    write_file_atomic("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.run_dir = dir;
    options.threads = 1;
    testing::internal::CaptureStdout();
    std::string error;
    try {
      run_with_prompt(options, repl_at, [&](PauseHooks& hooks) {
        pauses_.push_back(hooks.pause()->step);
        if (visit) visit(hooks);
      });
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    output_ = testing::internal::GetCapturedStdout();
    return error;
  }

  const std::string loop_ =
      "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end\n";
  std::vector<int64_t> pauses_;
};

TEST_F(Pause, AVisitChangesNoBit) {
  const std::string text = head() + loop_ + kExport;
  ASSERT_EQ(run(text, "plain"), "");
  ASSERT_EQ(run_with(text, "visited", 2), "");
  EXPECT_EQ(pauses_, std::vector<int64_t>{2});
  EXPECT_EQ(metrics("visited"), metrics("plain"));
  EXPECT_EQ(read_file("visited/hf/model.safetensors"), read_file("plain/hf/model.safetensors"));
}

TEST_F(Pause, AStepOfALaterLoopPausesInThatLoop) {
  const std::string text = two_phases("run:log(adamw:step(batch, later))");
  bool knows_later = false;
  ASSERT_EQ(run_with(text, "r", 3,
                     [&](PauseHooks& hooks) {
                       const FrameNames names = recipe_names(hooks.recipe());
                       for (const FrameName& one : names.names())
                         knows_later |= one.name == "later";
                     }),
            "");
  EXPECT_EQ(pauses_, std::vector<int64_t>{3});
  EXPECT_TRUE(knows_later);
}

TEST_F(Pause, AStepThatIsNeverReachedIsReported) {
  ASSERT_EQ(run_with(head() + loop_, "r", 4), "");
  EXPECT_TRUE(pauses_.empty());
  EXPECT_TRUE(has(output_, "--repl-at 4: no body of this step began; the run has 4 bodies"));
}

TEST_F(Pause, ASignalPausesAfterTheBody) {
  const auto once = [this](PauseHooks&) {
    if (pauses_.size() == 1) raise(SIGUSR1);
  };
  testing::internal::CaptureStderr();
  ASSERT_EQ(run_with(head() + loop_, "r", 1, once), "");
  EXPECT_TRUE(has(testing::internal::GetCapturedStderr(), "pausing after this step"));
  EXPECT_EQ(pauses_, (std::vector<int64_t>{1, 1}));
}

TEST_F(Pause, ASignalUnderAnOpenPromptIsIgnored) {
  const auto visit = [](PauseHooks&) {
    const SignalManner before = set_signal_manner(SignalManner::kPrompt);
    raise(SIGUSR1);
    set_signal_manner(before);
  };
  testing::internal::CaptureStderr();
  ASSERT_EQ(run_with(head() + loop_, "r", 1, visit), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("pausing"), std::string::npos);
  EXPECT_EQ(pauses_, (std::vector<int64_t>{1}));
}

TEST_F(Pause, AnInterruptedRunSavesAtThePause) {
  const std::string error =
      run_with(head() + loop_ + kExport, "r", 2, [](PauseHooks&) { request_interrupt(SIGINT); });
  clear_interrupt();
  LuaState::clear_interrupt();
  EXPECT_TRUE(has(error, "interrupted"));
  ASSERT_EQ(run(head() + loop_ + kExport, "r", {.resume = true}), "");
  ASSERT_EQ(run(head() + loop_ + kExport, "plain"), "");
  EXPECT_EQ(metrics("r"), metrics("plain"));
}

}  // namespace
}  // namespace xrun::pause_test
