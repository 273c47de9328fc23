// The ends of a run other than its last step: --steps, a longer or shorter loop, run:stop, break,
// time.

#include <gtest/gtest.h>

#include <chrono>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/run/run.h"
#include "core/run/signals.h"
#include "tests/core/run/run_outcome.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::run_limits_test {
namespace {

TEST(RunLimits, StepsLimitStopsEarlyAndAResumeContinues) {
  const ToyLoop loop = saving(0, {6, 5});
  for (const int64_t limit : {0, 1, 5, 6, 8}) {
    const ScratchFolder folder;
    ToyLoop limited = loop;
    limited.settings.steps_limit = limit;
    const ToyResult first = toy_run(folder / "run", limited);
    EXPECT_EQ(first.run->step(), limit);
    EXPECT_FALSE(first.run->dir().record().at("finished").as_bool());
    EXPECT_EQ(first.run->summary().stopped, "--steps " + std::to_string(limit));
    const_cast<ToyResult&>(first).run.reset();
    ToyLoop resumed = loop;
    resumed.resume = true;
    EXPECT_EQ(outcome_of(folder / "run", toy_run(folder / "run", resumed)), undisturbed(loop))
        << limit;
  }
}

TEST(RunLimits, ALimitBeyondTheEndIsAFinishedRun) {
  const ScratchFolder folder;
  ToyLoop loop = saving(0, {3});
  loop.settings.steps_limit = 3;
  EXPECT_TRUE(toy_run(folder / "run", loop).run->dir().record().at("finished").as_bool());
}

TEST(RunLimits, ALongerRunContinuesAFinishedOne) {
  const ScratchFolder folder;
  toy_run(folder / "run", saving(0, {4}), toy_identity(1));
  ToyLoop longer = saving(0, {9});
  longer.resume = true;
  const ToyResult toy = toy_run(folder / "run", longer, toy_identity(2));
  EXPECT_EQ(toy.run->resume_step(), 4);
  EXPECT_EQ(toy.run->earlier_phase_steps(), 4);
  EXPECT_EQ(outcome_of(folder / "run", toy), undisturbed(saving(0, {9}), toy_identity(2)));
}

TEST(RunLimits, AShorterLoopIsRefusedAndSoIsOneThatGrewTooLate) {
  const ScratchFolder folder;
  toy_run(folder / "run", saving(0, {4, 2}));
  ToyLoop resumed = saving(0, {3, 2});
  resumed.resume = true;
  EXPECT_EQ(
      message_of<Error>([&] { toy_run(folder / "run", resumed); }),
      (folder / "run").string() +
          ": cannot resume: loop 1 had 4 steps and now has 3: a resume can only add steps\n"
          "to resume with these changes, add --force; to start a new run, choose another folder "
          "with --run DIR");
  resumed.phases = {5, 2};
  EXPECT_EQ(
      message_of<Error>([&] { toy_run(folder / "run", resumed); }),
      (folder / "run").string() +
          ": cannot resume: loop 1 had 4 steps and now has 5, and a later loop has begun since: "
          "a loop that is done cannot grow\n"
          "to resume with these changes, add --force; to start a new run, choose another folder "
          "with --run DIR");
}

TEST(RunLimits, ALimitBelowTheSavedStepsIsRefused) {
  const ScratchFolder folder;
  ToyLoop loop = saving(0, {4});
  toy_run(folder / "run", loop);
  const std::string metrics = text_of(folder / "run/metrics.jsonl");
  loop.resume = true;
  loop.phases = {6};
  loop.settings.steps_limit = 3;
  EXPECT_EQ(message_of<UsageError>([&] { toy_run(folder / "run", loop, toy_identity(6)); }),
            (folder / "run").string() +
                ": 4 steps are saved, so --steps 3 would train nothing; give more steps or leave "
                "--steps out");
  EXPECT_EQ(text_of(folder / "run/metrics.jsonl"), metrics);
}

TEST(RunLimits, StopEndsTheRunAfterItsBody) {
  const ScratchFolder folder;
  ToyLoop loop = saving(0, {6, 5});
  loop.at = [](const char* event, int64_t step, xrun::Run& run) {
    if (std::string(event) == "logged" && step == 2) run.stop("good enough");
  };
  const ToyResult toy = toy_run(folder / "run", loop);
  EXPECT_EQ(toy.run->step(), 3);
  EXPECT_EQ(toy.run->summary().stopped, "good enough");
  EXPECT_TRUE(toy.run->dir().record().at("finished").as_bool());
  const_cast<ToyResult&>(toy).run.reset();
  RunDirOptions options{folder / "run", true, false};
  EXPECT_TRUE(RunDir::open(toy_identity(), options).finished());
}

TEST(RunLimits, AStoppedRunGoesOnWithMoreStepsOrOtherSettings) {
  const ScratchFolder folder;
  ToyLoop loop = saving(0, {6, 5});
  loop.at = [](const char* event, int64_t step, xrun::Run& run) {
    if (std::string(event) == "logged" && (step == 2 || step == 4)) run.stop("good enough");
  };
  EXPECT_EQ(toy_run(folder / "run", loop).run->step(), 3);
  loop.resume = true;
  loop.phases = {8, 5};
  {
    const ToyResult again = toy_run(folder / "run", loop, toy_identity(2));
    EXPECT_EQ(again.run->step(), 5);
    EXPECT_EQ(again.run->summary().stopped,
              "good enough (the recipe stopped again by its own condition, 2 steps after the "
              "resume, which brings run.state back too)");
  }
  RunIdentity other = toy_identity(2);
  other.config.set("beta", 0.3);
  const RunDirOptions options{folder / "run", /*resume=*/true, /*force=*/true};
  EXPECT_FALSE(RunDir::open(other, options).finished());
  EXPECT_TRUE(RunDir::open(toy_identity(2), options).finished());
}

TEST(RunLimits, ABreakEndsItsLoopForGood) {
  const ScratchFolder folder;
  auto weights = std::make_shared<ToyWeights>();
  const auto drive = [&](bool resume) {
    RunDirOptions options{folder / "run", resume, true};
    xrun::Run run(RunDir::open(toy_identity(), options), {}, {{"weights", weights}});
    Json state = Json::object();
    run.begin_phase({10, Json::object()}, state);
    while (run.begin_body(state)) {
      if (run.step() == 2) break;
    }
    run.begin_phase({3, Json::object()}, state);
    while (run.begin_body(state)) {
      if (!resume && run.step() == 4) {
        run.save_after_error(state);
        return run.step();
      }
    }
    run.finish(state);
    return run.step();
  };
  EXPECT_EQ(drive(false), 4);
  EXPECT_EQ(drive(true), 6);
  EXPECT_EQ(text_of(folder / "run/metrics.jsonl"),
            "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n{\"step\":5}\n");
}

std::chrono::steady_clock::time_point clock_time;

// Two minutes are over when body 3 ends.
ToyLoop limited_to_two_minutes() {
  clock_time = std::chrono::steady_clock::time_point(std::chrono::hours(1));
  ToyLoop loop = saving(0, {6});
  loop.settings.stop_minutes = 2;
  loop.settings.began = clock_time;
  loop.settings.now = [] { return clock_time; };
  loop.at = [](const char* event, int64_t, xrun::Run&) {
    if (std::string(event) == "logged") clock_time += std::chrono::seconds(30);
  };
  return loop;
}

TEST(RunLimits, WhenItsTimeIsUpItSavesAndTheResumeIsExact) {
  const ScratchFolder folder;
  try {
    toy_run(folder / "run", limited_to_two_minutes());
    ADD_FAILURE() << "it did not stop";
  } catch (const Interrupted& stop) {
    EXPECT_EQ(interrupted_exit_status(stop.signal_number()), 0);
  }
  clear_interrupt();
  EXPECT_EQ(text_of(folder / "run/checkpoints/latest"), "step_0000004\n");
  ToyLoop resumed = saving(0, {6});
  resumed.resume = true;
  EXPECT_EQ(outcome_of(folder / "run", toy_run(folder / "run", resumed)),
            undisturbed(saving(0, {6})));
}

TEST(RunLimits, ALoopThatIsDoneWhenItsTimeIsUpEndsAsUsual) {
  const ScratchFolder folder;
  ToyLoop loop = limited_to_two_minutes();
  loop.phases = {4};
  const ToyResult toy = toy_run(folder / "run", loop);
  EXPECT_TRUE(toy.run->dir().record().at("finished").as_bool());
  EXPECT_FALSE(interrupt_requested());
}

}  // namespace
}  // namespace xrun::run_limits_test
