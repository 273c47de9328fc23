// batch.schedule, train and stop.after of a recipe.

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
  EXPECT_EQ(run(text + loop, "r", false, {}, {"batch.schedule={ { step = 2, size = 7 } }"}), "");
}

TEST_F(BatchSchedule, WrongSchedulesAreRefused) {
  const auto error = [&](const std::string& schedule, const std::string& loop = kLoop) {
    return run(head() + loop, "r", true, {}, {"batch.schedule=" + schedule});
  };
  has(error("{ { step = 2, size = 3 }, { step = 2, size = 4 } }"),
      "batch.schedule: step 2 follows step 2; wanted rising steps");
  has(error("{ { step = 0, size = 3 } }"), "batch.schedule.1.step");
  has(error("{ { step = 3 } }"), "size");
  has(error("{ { step = 3, size = 2 } }", R"(
for step, a, b in run:steps({ train, valid }, cfg.batch) do end
)"),
      "batch.schedule changes the size of steps of one set of rows; this loop has 2 sets");
}

TEST_F(BatchSchedule, AChangedScheduleIsADifferenceOfTheRun) {
  ASSERT_EQ(run(head() + kLoop, "r", false, 2, {"batch.schedule={ { step = 1, size = 3 } }"}), "");
  has(run(head() + kLoop, "r", true, {}, {"batch.schedule={ { step = 1, size = 2 } }"}),
      "schedule");
}

TEST_F(BatchSchedule, SlowAPartOfTheWeightsTrainsAndResumes) {
  const std::string text = head() + kLoop + kExport;
  expect_same_when_resumed(text, {2}, {"train={ \"*.mlp.*\" }"});
  has(run(text, "u", false, {}, {"train={ \"*.mpl.*\" }"}), "did you mean \"*.mlp.*\"?");
  has(run(text, "v", false, {}, {"train={ \"*.mlp.*\" }", "lora={ rank = 2 }"}),
      "train chooses among the weights, which are frozen beside an adapter");
}

// 6 ms are over after the first step.
TEST_F(BatchSchedule, ARunWhoseTimeIsUpIsSavedAndGoesOn) {
  const std::string text = head() + kLoop + kExport;
  ASSERT_EQ(run(text, "whole"), "");
  EXPECT_EQ(run(text, "r", false, {}, {"stop.after=0.0001"}), "interrupted");
  clear_interrupt();
  has(output_,
      "stopped: the 0.0001 minutes of stop.after are over; saved in r/checkpoints/step_0000001");
  EXPECT_EQ(run(text, "r", true, {}, {"stop.after=0"}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
}

}  // namespace xrun::batch_schedule_test
