// Ranks drive one run: the first writes its folder, all stop and fail together, and the folder of n
// ranks resumes on m.

#include <gtest/gtest.h>

#include <csignal>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/dist/agreement.h"
#include "core/run/rank_check.h"
#include "tests/core/run/toy_run.h"
#include "tests/error_of.h"
#include "tests/forked_ranks.h"
#include "tests/scratch_folder.h"

namespace xrun::shared_run_test {
namespace {

ToyLoop shared(Ranks* ranks, std::vector<int64_t> phases = {6}) {
  ToyLoop loop;
  loop.settings.save_every = 2;
  loop.settings.save_minutes = 0;
  loop.settings.ranks = ranks;
  loop.phases = std::move(phases);
  return loop;
}

// A run in `dir` as text: what it threw, or its end.
std::string go(const std::filesystem::path& dir, const ToyLoop& loop) {
  try {
    const ToyResult toy = toy_run(dir, loop);
    return fmt::format("{} steps, {:a}, {}", toy.run->step(), toy.weights->first(),
                       dump_json(toy.state));
  } catch (const std::exception& error) {  // Interrupted is not an Error
    return error.what();
  }
}

TEST(SharedRun, HasTheFilesAndTheEndOfOneProcess) {
  const ScratchFolder folder;
  const std::string wanted = on_ranks(0, [&](Ranks* ranks) {
    return go(folder / "one", shared(ranks, {3, 2}));
  })[0];
  EXPECT_TRUE(wanted.starts_with("5 steps")) << wanted;
  for (const std::string& text : on_ranks(3, [&](Ranks* ranks) {
         return go(folder / "three", shared(ranks, {3, 2}));
       })) {
    EXPECT_EQ(text, wanted);
  }
  EXPECT_EQ(text_of(folder / "three/metrics.jsonl"), text_of(folder / "one/metrics.jsonl"));
  EXPECT_EQ(text_of(folder / "three/checkpoints/latest"),
            text_of(folder / "one/checkpoints/latest"));
}

TEST(SharedRun, ASignalAtOneRankSavesAndStopsAllAndAnyNumberResumes) {
  const ScratchFolder folder;
  const std::string wanted =
      on_ranks(0, [&](Ranks* ranks) { return go(folder / "one", shared(ranks)); })[0];
  int64_t until = 1;
  for (const int64_t size : {4, 2, 3}) {
    for (const std::string& text : on_ranks(size, [&](Ranks* ranks) {
           ToyLoop loop = shared(ranks);
           loop.resume = until > 1;
           loop.at = [&](const char* event, int64_t step, xrun::Run&) {
             if (step == until && ranks->rank() == ranks->size() - 1 &&
                 std::string(event) == "logged") {
               request_interrupt(SIGTERM);
             }
           };
           return go(folder / "run", loop);
         })) {
      EXPECT_EQ(text, "interrupted");
    }
    ++until;
    EXPECT_EQ(text_of(folder / "run/checkpoints/latest"), fmt::format("step_000000{}\n", until));
  }
  const std::string end = on_ranks(0, [&](Ranks* ranks) {
    ToyLoop loop = shared(ranks);
    loop.resume = true;
    return go(folder / "run", loop);
  })[0];
  EXPECT_EQ(end, wanted);
  EXPECT_EQ(text_of(folder / "run/metrics.jsonl"), text_of(folder / "one/metrics.jsonl"));
}

TEST(SharedRun, TheTimeLimitOfOneRankEndsAll) {
  const ScratchFolder folder;
  for (const std::string& text : on_ranks(3, [&](Ranks* ranks) {
         ToyLoop loop = shared(ranks);
         loop.settings.save_every = 0;
         // Its clock is far ahead, and it alone has a limit.
         loop.settings.stop_minutes = ranks->rank() == 1 ? 1 : 0;
         const std::string end = go(folder / "run", loop);
         return fmt::format("{} {}", end, interrupt_signal());
       })) {
    EXPECT_EQ(text, "interrupted -128");
  }
  EXPECT_EQ(text_of(folder / "run/checkpoints/latest"), "step_0000001\n");
}

TEST(SharedRun, AStopOfOneRankEndsTheLoopOfAll) {
  const ScratchFolder folder;
  for (const std::string& text : on_ranks(3, [&](Ranks* ranks) {
         ToyLoop loop = shared(ranks);
         loop.at = [&](const char* event, int64_t step, xrun::Run& run) {
           if (step == 2 && ranks->rank() == 1 && std::string(event) == "logged")
             run.stop("enough");
         };
         const std::string end = go(folder / "run", loop);
         return end.substr(0, end.find(','));
       })) {
    EXPECT_EQ(text, "3 steps");
  }
}

TEST(SharedRun, AnotherNumberOfProcessesIsANotice) {
  const ScratchFolder folder;
  ToyLoop loop = shared(nullptr);
  RunIdentity identity = toy_identity();
  identity.machine.set("ranks", int64_t{4});
  loop.at = [&](const char* event, int64_t step, xrun::Run& run) {
    if (step == 2 && std::string(event) == "logged") run.stop("enough");
  };
  toy_run(folder / "run", loop, identity);
  identity.machine = toy_identity().machine;
  const RunDir dir = RunDir::open(identity, {.dir = folder / "run", .resume = true});
  EXPECT_EQ(dir.notices().back(), "the run continues on 1 process; it was on 4 processes before");
}

TEST(SharedRun, AFolderThatTheFirstRankCannotOpenEndsAll) {
  const ScratchFolder folder;
  on_ranks(0, [&](Ranks* ranks) { return go(folder / "run", shared(ranks)); });
  const auto texts = on_ranks(2, [&](Ranks* ranks) { return go(folder / "run", shared(ranks)); });
  EXPECT_NE(texts[0].find("this folder holds a finished run"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[1], "rank 0 of 2: " + texts[0]);
}

TEST(SharedRun, AnErrorOnOneRankLeavesTheLastUpdateSaved) {
  const ScratchFolder folder;
  const auto texts = on_ranks(2, [&](Ranks* ranks) {
    ToyLoop loop = shared(ranks);
    loop.settings.save_every = 0;
    loop.at = [&](const char* event, int64_t step, xrun::Run&) {
      if (step != 4 || std::string(event) != "begin") return;
      agree(ranks, "work", [&] {
        if (ranks->rank() == 1) throw Error("dpo.lua:24: oops");
      });
    };
    return go(folder / "run", loop);
  });
  EXPECT_EQ(texts[0], "rank 1 of 2: dpo.lua:24: oops");
  EXPECT_EQ(texts[1], "dpo.lua:24: oops");
  EXPECT_EQ(text_of(folder / "run/checkpoints/latest"), "step_0000004\n");
}

class WeightsInRanges : public ToyWeights {
 public:
  std::vector<NamedTensor> tensors() const override { return {}; }
  std::vector<TensorRange> ranges() const override {
    const at::Tensor weight = ToyWeights::tensors()[0].tensor;
    return {{"weight", {weight.numel()}, 0, weight}};
  }
  void abandon_shared() override { calls += "abandon "; }
  void share_again() override { calls += "share "; }
  std::string calls;
};

// One rank that notes the latest checkpoint at each fails_together(). Another one, which is not
// there, may have an error.
class NotingRanks : public ForkedRanks {
 public:
  explicit NotingRanks(std::filesystem::path latest)
      : ForkedRanks(0, {}), latest_(std::move(latest)) {}
  bool fails_together() override {
    seen_.push_back(std::filesystem::exists(latest_) ? text_of(latest_) : "");
    return true;
  }
  Stopped stop_together(const std::string& message) override {
    error = message;
    fails_together();
    return stopped;
  }
  std::vector<std::string> gather(std::string_view label, const std::string& text) override {
    if (label == fails_at) {
      fails_at = "";
      throw Error("rank 1 of 2: no luck");
    }
    return ForkedRanks::gather(label, text);
  }
  const std::vector<std::string>& seen() const { return seen_; }
  Stopped stopped = Stopped::kTogether;
  std::string error, fails_at;

 private:
  std::filesystem::path latest_;
  std::vector<std::string> seen_;
};

struct RunOfNotingRanks {
  RunOfNotingRanks() : ranks(folder / "run/checkpoints/latest") {
    RunSettings settings;
    settings.save_every = 0;
    settings.save_minutes = 0;
    settings.ranks = &ranks;
    RunDirOptions options;
    options.dir = folder / "run";
    options.ranks = &ranks;
    run = std::make_unique<xrun::Run>(RunDir::open(toy_identity(), options), settings,
                                      SavedObjects{{"weights", weights}});
    run->begin_phase({3, Json::object()}, Json());
    run->begin_body(Json());
    run->mark_updated();
    run->begin_body(Json());
  }
  ScratchFolder folder;
  NotingRanks ranks;
  std::shared_ptr<WeightsInRanges> weights = std::make_shared<WeightsInRanges>();
  std::unique_ptr<xrun::Run> run;
};

// Otherwise the report of a rank that is done would end one that still writes.
TEST(SharedRun, ARankThatFailedWaitsForTheOthersAfterTheSave) {
  RunOfNotingRanks one;
  one.run->save_after_error(Json(), "no luck");
  EXPECT_EQ(one.ranks.seen(), (std::vector<std::string>{"", "step_0000001\n"}));
  EXPECT_EQ(one.ranks.error, "no luck");
  EXPECT_EQ(one.weights->calls, "");
}

TEST(SharedRun, ObjectsGiveUpWhatRanksBeganTogetherIfTheyStoppedApart) {
  RunOfNotingRanks one;
  one.ranks.stopped = Stopped::kApart;
  one.run->save_after_error(Json(), "no luck");
  EXPECT_EQ(one.weights->calls, "abandon share ");
  EXPECT_EQ(text_of(one.folder / "run/checkpoints/latest"), "step_0000001\n");
}

TEST(SharedRun, NothingIsSavedIfARankDoesNotStop) {
  RunOfNotingRanks one;
  one.ranks.stopped = Stopped::kAlone;
  EXPECT_EQ(error_of([&] { one.run->save_after_error(Json(), "no luck"); }),
            "the ranks hold the state in ranges, and not all of them could stop their step");
  EXPECT_FALSE(std::filesystem::exists(one.folder / "run/checkpoints/latest"));
}

// Its line is written before the ranks agree that it is.
TEST(SharedRun, AStepWhoseEndAnErrorStopsHasOneLineOfMetrics) {
  RunOfNotingRanks one;
  one.run->log(MetricList{{"train/loss", 2.0}});
  one.run->mark_updated();
  one.ranks.fails_at = "the metrics of a step";
  EXPECT_EQ(error_of([&] { one.run->begin_body(Json()); }), "rank 1 of 2: no luck");
  one.run->save_after_error(Json(), "no luck");
  EXPECT_EQ(text_of(one.folder / "run/checkpoints/latest"), "step_0000002\n");
  EXPECT_EQ(text_of(one.folder / "run/metrics.jsonl"),
            "{\"step\":0}\n{\"step\":1,\"train/loss\":2.0}\n");
}

TEST(RankCheck, ADifferingFieldIsNamedWithTheRanks) {
  for (const std::string& text : on_ranks(4, [](Ranks* ranks) -> std::string {
         RunIdentity identity = toy_identity();
         if (ranks->rank() % 2 == 1) identity.config.set("beta", 0.2);
         try {
           compare_identities(ranks, identity);
         } catch (const UsageError& error) {
           return error.what();
         }
         return "no error";
       })) {
    EXPECT_EQ(text,
              "the ranks of a run must have the same recipe, settings and program, but they "
              "differ on rank 1, 3: config.beta is 0.1 on rank 0 and 0.2 on rank 1; start every "
              "rank with the same files and the same command");
  }
}

TEST(RankCheck, ADifferingMemoryPlanIsNamed) {
  for (const std::string& text : on_ranks(2, [](Ranks* ranks) -> std::string {
         try {
           const int64_t bytes = ranks->rank() == 0 ? 100 : 120;
           compare_plans(ranks, "memory plan", Json(Json::Object{{"weights", bytes}}));
         } catch (const UsageError& error) {
           return error.what();
         }
         return "no error";
       })) {
    EXPECT_EQ(text,
              "the ranks of a run must have the same memory plan, but they differ on rank 1: "
              "plan.weights is 100 on rank 0 and 120 on rank 1; start every rank with the same "
              "files and the same command");
  }
}

TEST(RankCheck, EqualRanksPass) {
  for (const std::string& text : on_ranks(2, [](Ranks* ranks) {
         compare_identities(ranks, toy_identity());
         compare_plans(ranks, "data", Json(Json::Object{{"rows", int64_t{5}}}));
         return std::string("equal");
       })) {
    EXPECT_EQ(text, "equal");
  }
  compare_identities(nullptr, toy_identity());
}

TEST(RankCheck, AFolderThatRanksDoNotShareEndsAll) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "run");
  std::filesystem::create_directories(folder / "own");
  const auto texts = on_ranks(3, [&](Ranks* ranks) -> std::string {
    try {
      check_shared_folder(ranks, folder / (ranks->rank() == 1 ? "own" : "run"));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  });
  EXPECT_EQ(texts[1],
            (folder / "own").string() +
                ": this process does not see what rank 0 has written there; the folder of a run "
                "must be on a file system that all ranks share and may write to");
  EXPECT_EQ(texts[0], "rank 1 of 3: " + texts[1]);
  EXPECT_EQ(texts[2], texts[0]);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run"));
}

TEST(RankCheck, ASharedFolderPassesAndStaysAsItWas) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "run");
  for (const std::string& text : on_ranks(3, [&](Ranks* ranks) {
         check_shared_folder(ranks, folder / "run");
         return std::string("shared");
       })) {
    EXPECT_EQ(text, "shared");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run"));
}

}  // namespace
}  // namespace xrun::shared_run_test
