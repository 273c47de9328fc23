// batch.schedule, train and stop.after of a recipe.

#include "core/base/strings.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::batch_schedule_test {

using BatchSchedule = SessionTest;

constexpr const char* kLoop = R"(
for step, batch in run:steps(train, cfg.batch) do
  local m = adamw:step(batch, dpo)
  run:log({ pairs = #batch.row / 2 })
  run:log(m)
end
)";

TEST_F(BatchSchedule, SlowStepsHaveTheirSizesAndResumeAnywhere) {
  const std::vector<std::string> sets = {
      "batch.pairs=2", "batch.schedule={ { step = 1, size = 3 }, { step = 3, size = 1 } }"};
  expect_same_when_resumed(head() + kLoop + kExport, {1, 2, 3}, sets);
  EXPECT_EQ(values("whole", "recipe/pairs"), (std::vector<double>{2, 3, 3, 1}));
  has(output_, "4 steps of 2, 3 from step 1 on, 1 from step 3 on");
}

TEST_F(BatchSchedule, AnEpochHasTheStepsThatItsSizesMake) {
  std::string text = head("fraction = 0");
  text.replace(text.find("steps = 4"), 9, "epochs = 1");
  const std::string loop = R"(
local rows = {}
for step, batch in run:steps(train, cfg.batch) do
  for i = 0, #batch.row - 1, 2 do  -- both sides of a pair
    local row = batch.row[i]:item()
    assert(not rows[row], row)
    rows[row] = true
  end
  run:log(adamw:step(batch, dpo))
end
for row = 0, #train - 1 do assert(rows[row], row) end
)";
  EXPECT_EQ(run(text + loop, "r", {.sets = {"batch.schedule={ { step = 2, size = 7 } }"}}), "");
}

TEST_F(BatchSchedule, WrongSchedulesAreRefused) {
  const auto error = [&](const std::string& schedule, const std::string& loop = kLoop) {
    return run(head() + loop, "r", {.resume = true, .sets = {"batch.schedule=" + schedule}});
  };
  has(error("{ { step = 2, size = 3 }, { step = 2, size = 4 } }"),
      "batch.schedule: step 2 follows step 2; wanted ascending steps from 1 on; "
      "batch.pairs is the size before the first change");
  has(error("{ { step = 0, size = 3 } }"), "batch.schedule.1.step");
  has(error("{ { step = 3 } }"), "size");
  has(error("{ { step = 3, size = 2 } }", R"(
for step, a, b in run:steps({ train, valid }, cfg.batch) do end
)"),
      "batch.schedule changes the size of steps of one set of rows; this loop has 2 sets");
}

TEST_F(BatchSchedule, AChangedScheduleIsADifferenceOfTheRun) {
  ASSERT_EQ(
      run(head() + kLoop, "r", {.steps = 2, .sets = {"batch.schedule={ { step = 1, size = 3 } }"}}),
      "");
  has(run(head() + kLoop, "r",
          {.resume = true, .sets = {"batch.schedule={ { step = 1, size = 2 } }"}}),
      "schedule");
}

TEST_F(BatchSchedule, SlowAPartOfTheWeightsTrainsAndResumes) {
  const std::string text = head() + kLoop + kExport;
  expect_same_when_resumed(text, {2}, {"train={ \"*.mlp.*\" }"});
  has(run(text, "u", {.sets = {"train={ \"*.mpl.*\" }"}}), "did you mean \"*.mlp.*\"?");
  has(run(text, "v", {.sets = {"train={ \"*.mlp.*\" }", "lora={ rank = 2 }"}}),
      "train selects weights, but under lora all base weights are frozen");
}

// 20 pairs are trained on.
TEST_F(BatchSchedule, TheWarningNamesTheSchedule) {
  int runs = 0;
  const auto opening = [&](const std::string& change, const std::string& pairs = "4") {
    EXPECT_EQ(
        run(head() + kLoop, "r" + std::to_string(runs++),
            {.steps = 1, .sets = {"batch.pairs=" + pairs, "batch.schedule={ " + change + " }"}}),
        "");
    return output_;
  };
  const std::string one = opening("{ step = 3, size = 25 }");
  has(one, "a step takes 25 pairs, the data has 20");
  has(one, "lower the sizes in batch.schedule to at most 20 pairs");
  EXPECT_EQ(one.find("--set batch.pairs"), std::string::npos) << one;
  const std::string both = opening("{ step = 2, size = 25 }", "21");
  has(both, "lower the batch to at most 20: --set batch.pairs=20, and the sizes in batch.schedule");
}

TEST_F(BatchSchedule, TheWarningCountsTokensForABatchOfTokens) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("the house {} . ", i);
  write_file_atomic("text.txt", text);
  EXPECT_EQ(run(R"(local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "text.txt" } }, optim = { lr = 1e-3 },
  max_length = 32, batch = { tokens = 6400, max_tokens = 64 }, steps = 2 }
local policy = xrun.policy(cfg.model)
local text   = xrun.text(cfg.data, policy)
local adamw  = xrun.adamw(policy, cfg.optim)
local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(text, cfg.batch) do break end
)",
                "r"),
            "");
  const size_t at = output_.find("lower the batch to at most ");
  ASSERT_NE(at, std::string::npos) << output_;
  std::string said = output_.substr(at + std::string("lower the batch to at most ").size());
  const std::string most = said.substr(0, said.find(':'));
  const size_t set = said.find("--set batch.tokens=");
  ASSERT_NE(set, std::string::npos) << said;
  said = said.substr(set + std::string("--set batch.tokens=").size());
  EXPECT_EQ(count_text(std::stoll(said)) + " tokens", most);
}

TEST_F(BatchSchedule, AChangeBeyondTheLoopIsReported) {
  ASSERT_EQ(run(head() + kLoop, "r",
                {.sets = {"batch.schedule={ { step = 1, size = 2 }, { step = 4, size = 30 } }"}}),
            "");
  has(output_,
      "batch.schedule: the change to 30 at step 4 has no effect, since the loop has 4 steps");
  has(output_, "4 steps of 4, 2 from step 1 on =");
  EXPECT_EQ(output_.find("a step takes"), std::string::npos) << output_;
}

TEST_F(BatchSchedule, ASizeThatIsNotAMultipleOfAWindowIsReported) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("the house {} . ", i);
  write_file_atomic("text.txt", text);
  const std::string recipe = R"(local xrun = require "xrun"
local cfg = xrun.config { model = "tiny", data = { { path = "text.txt" } }, optim = { lr = 1e-3 },
  max_length = 32, batch = { tokens = 64, max_tokens = 64 }, steps = 3 }
local policy = xrun.policy(cfg.model)
local text   = xrun.text(cfg.data, policy)
local adamw  = xrun.adamw(policy, cfg.optim)
local run    = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(text, cfg.batch) do
  adamw:step(batch, function(t) return -policy:token_logprob(t) end)
end
)";
  const auto error = [&](const std::string& size) {
    return run(recipe, "r" + size,
               {.sets = {"batch.schedule={ { step = 1, size = " + size + " } }"}});
  };
  ASSERT_EQ(error("100"), "");
  has(output_, "batch.schedule: size 100 is 3 windows of 32 tokens");
  has(error("31"), "batch.schedule: size 31 is less than one window of 32 tokens; raise it");
}

// The first step takes longer than these 6 ms.
TEST_F(BatchSchedule, ARunWhoseTimeIsUpIsSavedAndGoesOn) {
  const std::string text = head() + kLoop + kExport;
  ASSERT_EQ(run(text, "whole"), "");
  EXPECT_EQ(run(text, "r", {.sets = {"stop.after=0.0001"}}), "interrupted");
  clear_interrupt();
  has(output_,
      "stopped: the time is up (stop.after = 0.0001 minutes); saved in "
      "r/checkpoints/step_0000001");
  EXPECT_EQ(run(text, "r", {.resume = true, .sets = {"stop.after=0"}}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
}

}  // namespace xrun::batch_schedule_test
