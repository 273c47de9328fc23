// A run that errors, signals or full disks interrupt resumes to the metrics and states of an
// undisturbed one.

#include "core/run/run.h"

#include <gtest/gtest.h>

#include <csignal>

#include "core/base/error.h"
#include "core/base/file_fault.h"
#include "core/base/interrupt.h"
#include "core/base/process_usage.h"
#include "core/config/config_field.h"
#include "core/run/signals.h"
#include "tests/core/run/run_outcome.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::run_test {
namespace {

TEST(Run, WritesOneObjectPerBodyAndOneForLogsAfterTheLoop) {
  const ScratchFolder folder;
  const ToyResult toy = toy_run(folder / "run", saving(0, {2}));
  EXPECT_EQ(
      text_of(folder / "run/metrics.jsonl"),
      "{\"step\":0,\"train/loss\":1.0099999904632568,\"valid/loss\":0.5,\"perf/tokens\":7.0}\n"
      "{\"step\":1,\"train/loss\":1.1450999975204468,\"perf/tokens\":7.0}\n"
      "{\"step\":2,\"valid/loss\":0.5}\n");
  EXPECT_TRUE(toy.run->dir().record().at("finished").as_bool());
  EXPECT_EQ(toy.run->last_checkpoint(), folder / "run/checkpoints/step_0000002");
}

TEST(Run, ANameThatCannotBeSavedIsRefusedBeforeTheRunBegins) {
  const ScratchFolder folder;
  const auto weights = std::make_shared<ToyWeights>();
  const auto open = [&](const SavedObjects& saved) {
    xrun::Run run(RunDir::open(toy_identity(), {folder / "run"}), {}, saved);
  };
  EXPECT_EQ(message_of<Error>([&] {
              open({{"run", weights}});
            }),
            "\"run\" cannot name a saved object: use letters, digits and underscores, and neither "
            "\"run\" nor \"manifest\"");
  EXPECT_EQ(message_of<Error>([&] {
              open({{"a", weights}, {"a", weights}});
            }),
            "two saved objects are named \"a\"");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(Run, TheLastStepOfEachPhaseIsSaved) {
  const ScratchFolder folder;
  ToyLoop loop = saving(0, {3, 4});
  loop.settings.save_keep = 9;
  toy_run(folder / "run", loop);
  EXPECT_EQ(CheckpointStore(folder / "run/checkpoints", 9).steps(), (std::vector<int64_t>{3, 7}));
}

// An error at each point of each body, then a resume: the same metrics, weights and state.
TEST(Run, AResumeAfterAnyErrorMatchesTheUninterruptedRun) {
  const ToyLoop loop = saving(3, {4, 3});
  const RunOutcome wanted = undisturbed(loop);
  for (const std::string event : {"begin", "logged"}) {
    for (int64_t at = 0; at < 7; ++at) {
      const ScratchFolder folder;
      ToyLoop failing = loop;
      failing.at = [&](const char* now, int64_t step, xrun::Run&) {
        if (now == event && step == at) throw Error("planted");
      };
      EXPECT_EQ(error_of([&] { toy_run(folder / "run", failing); }), "planted");
      // The first body of a loop may have had a second update to come, so it is repeated.
      const bool first_of_loop = at == 0 || at == 4;
      const int64_t saved = event == "begin" || first_of_loop ? at : at + 1;
      EXPECT_EQ(std::filesystem::exists(folder / "run/checkpoints" / checkpoint_name(saved)),
                saved > 0)
          << event << at;
      ToyLoop resumed = loop;
      resumed.resume = true;
      const ToyResult toy = toy_run(folder / "run", resumed);
      EXPECT_EQ(toy.run->resume_step(), saved > 0 ? saved : -1);
      EXPECT_EQ(outcome_of(folder / "run", toy), wanted) << event << at;
    }
  }
}

TEST(Run, AnErrorBeforeTheUpdateSavesTheStateOfTheBodysBeginning) {
  const ScratchFolder folder;
  ToyLoop loop = saving(0);
  loop.phases = {10};
  auto weights = std::make_shared<ToyWeights>();
  xrun::Run run(RunDir::open(toy_identity(), {folder / "run"}), {}, {{"weights", weights}});
  Json state = Json::object();
  run.begin_phase({10, Json::object()}, state);
  run.begin_body(state);
  weights->update(0);
  run.mark_updated();
  state.set("best", 1);
  run.begin_body(state);
  state.set("best", 2);  // in the body, before its update
  EXPECT_EQ(run.save_after_error(state), folder / "run/checkpoints/step_0000001");
  const Json saved = read_json((folder / "run/checkpoints/step_0000001/run.json").string());
  EXPECT_EQ(dump_json(saved.at("state")), "{\"best\":1}");
}

// The end of the first body tells how many updates there are; from then on each begins with a copy.
TEST(Run, AnErrorBetweenTwoUpdatesNeverSavesHalfABody) {
  ToyLoop loop = saving(0, {4});
  loop.updates = 2;
  const RunOutcome wanted = undisturbed(loop);
  for (const std::string event : {"between updates", "next update", "updated", "logged"}) {
    for (const int64_t at : {0, 2}) {
      const ScratchFolder folder;
      ToyLoop failing = loop;
      failing.at = [&](const char* now, int64_t step, xrun::Run&) {
        if (step == at && event == now) throw Error("two updates are too many");
      };
      EXPECT_EQ(error_of([&] { toy_run(folder / "run", failing); }), "two updates are too many");
      EXPECT_EQ(std::filesystem::exists(folder / "run/checkpoints/latest"), at > 0);
      EXPECT_EQ(std::filesystem::exists(folder / "run/checkpoints/step_0000002"), at > 0);
      ToyLoop resumed = loop;
      resumed.resume = true;
      EXPECT_EQ(outcome_of(folder / "run", toy_run(folder / "run", resumed)), wanted)
          << event << " of body " << at;
    }
  }
}

TEST(Run, CountsTheUpdatesThatAResumeRepeats) {
  for (const int64_t updates : {0, 1, 2}) {
    const ScratchFolder folder;
    xrun::Run run(RunDir::open(toy_identity(), {folder / "run"}), {}, {});
    run.begin_phase({2, Json::object()}, Json());
    run.begin_body(Json());
    for (int64_t k = 0; k < updates; ++k) {
      run.begin_update();
      run.mark_updated();
    }
    EXPECT_TRUE(run.save_after_error(Json()).empty());
    EXPECT_EQ(run.dropped_updates(), updates);
  }
}

TEST(Run, SavesWhenTheMinutesAreOver) {
  for (const double minutes : {0.0, 1e-9, 1e9}) {
    const ScratchFolder folder;
    ToyLoop loop = saving(0, {3});
    loop.settings.save_minutes = minutes;
    loop.settings.save_keep = 9;
    toy_run(folder / "run", loop);
    const std::vector<int64_t> every = {1, 2, 3}, last = {3};
    EXPECT_EQ(CheckpointStore(folder / "run/checkpoints", 9).steps(),
              minutes == 1e-9 ? every : last);
  }
}

SteadyClock::time_point fake_now;

// By the default of the config, and a clock that moves four minutes in each body.
TEST(Run, SavesAfterTenMinutesUnlessToldOtherwise) {
  const ScratchFolder folder;
  ToyLoop loop = saving(0, {7});
  loop.settings.save_minutes = find_config_field("save.minutes")->default_value.as_double();
  loop.settings.save_keep = 9;
  loop.settings.now = [] { return fake_now; };
  loop.at = [](const char* event, int64_t, xrun::Run&) {
    if (event == std::string_view("begin")) fake_now += std::chrono::minutes(4);
  };
  toy_run(folder / "run", loop);
  EXPECT_EQ(CheckpointStore(folder / "run/checkpoints", 9).steps(),
            (std::vector<int64_t>{3, 6, 7}));
}

TEST(Run, OnlyABodyOfSeveralUpdatesIsPrecededByACopy) {
  for (const int64_t updates : {1, 2}) {
    const ScratchFolder folder;
    ToyLoop loop = saving(0, {3});
    loop.updates = updates;
    loop.at = [&](const char* now, int64_t step, xrun::Run& run) {
      if (std::string(now) != "begin") return;
      EXPECT_EQ(run.body_copy_bytes(), updates > 1 && step > 0 ? 16 : 0) << step;
    };
    toy_run(folder / "run", loop);
  }
}

TEST(Run, ARefusedResumeChangesNoFile) {
  const ScratchFolder folder;
  toy_run(folder / "run", saving(0, {4, 2}));
  const auto files = [&] {
    std::string all;
    for (const char* name : {"config.json", "run.json", "recipe.lua", "metrics.jsonl"}) {
      all += text_of(folder / "run" / name);
    }
    return all;
  };
  const std::string before = files();
  ToyLoop resumed = saving(0, {4, 1});  // the second loop is refused
  resumed.resume = true;
  message_of<Error>([&] { toy_run(folder / "run", resumed, toy_identity(2)); });
  EXPECT_EQ(files(), before);
  resumed.phases = {4, 3};
  toy_run(folder / "run", resumed, toy_identity(2));
  EXPECT_NE(files(), before);
}

TEST(Run, AnInterruptSavesAfterItsBodyAndTheResumeIsExact) {
  const ToyLoop loop = saving(0, {6});
  const ScratchFolder folder;
  ToyLoop interrupted = loop;
  interrupted.at = [](const char* event, int64_t step, xrun::Run& run) {
    if (step != 3) return;
    if (std::string(event) == "begin") {
      EXPECT_TRUE(run.may_interrupt_now());
    }
    if (std::string(event) == "updated") {
      request_interrupt(SIGTERM);
      EXPECT_FALSE(run.may_interrupt_now());
    }
  };
  try {
    toy_run(folder / "run", interrupted);
    ADD_FAILURE() << "it was not interrupted";
  } catch (const Interrupted& stop) {
    EXPECT_EQ(stop.signal_number(), SIGTERM);
  }
  clear_interrupt();
  EXPECT_TRUE(std::filesystem::exists(folder / "run/checkpoints/step_0000004"));
  ToyLoop resumed = loop;
  resumed.resume = true;
  EXPECT_EQ(outcome_of(folder / "run", toy_run(folder / "run", resumed)), undisturbed(loop));
}

// The n-th write, sync or rename of a whole run fails: a clear error, and a resume that ends like
// the undisturbed run.
TEST(Run, AFullDiskAtAnyWriteLosesNothing) {
  const ToyLoop loop = saving(2, {4});
  const RunOutcome wanted = undisturbed(loop);
  int failures = 0;
  for (const std::string operation : {"write", "fsync", "rename"}) {
    for (int64_t n = 1;; ++n) {
      const ScratchFolder folder;
      bool failed = false;
      set_file_fault(operation, n);
      try {
        toy_run(folder / "run", loop);
      } catch (const Error& error) {
        failed = true;
        EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos);
      }
      set_file_fault("", 0);
      if (!failed) break;
      ++failures;
      ToyLoop resumed = loop;
      resumed.resume = true;
      EXPECT_EQ(outcome_of(folder / "run", toy_run(folder / "run", resumed)), wanted)
          << operation << " " << n;
    }
  }
  EXPECT_GT(failures, 40);
}

TEST(Run, ReplayedLogsAreDroppedAndReported) {
  const ScratchFolder folder;
  auto weights = std::make_shared<ToyWeights>();
  toy_run(folder / "run", saving(0, {4}));
  RunDirOptions options{folder / "run", true, false};
  xrun::Run run(RunDir::open(toy_identity(), options), {}, {{"weights", weights}});
  EXPECT_TRUE(run.replaying());
  EXPECT_EQ(run.state().at("bodies").as_int(), 4);
  run.begin_phase({4, parse_json("{\"key\":\"d1\"}", "data")}, Json());
  EXPECT_FALSE(run.replaying());
  EXPECT_FALSE(run.begin_body(Json()).has_value());
}

TEST(Run, OneThatSavesNothingMakesNoFilesForTheUser) {
  const ScratchFolder folder;
  const RunSettings settings{.saves = false};
  xrun::Run run(RunDir::open(toy_identity(), {folder / "run"}), settings,
                {{"weights", std::make_shared<ToyWeights>()}});
  bool called = false;
  EXPECT_FALSE(run.write_out("an export", [&] { called = true; }));
  EXPECT_FALSE(called);
  EXPECT_EQ(run.keep_failed_batch({}, {}), "");
  EXPECT_FALSE(std::filesystem::exists(folder / "run/failed_batch.json"));
}

}  // namespace
}  // namespace xrun::run_test
