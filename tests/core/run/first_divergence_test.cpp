// Two runs are compared up to the first metric, tensor and element that differ.

#include "core/run/first_divergence.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/run/checkpoint.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::first_divergence_test {
namespace {

constexpr const char* kMetrics =
    "{\"step\":0,\"train/loss\":0.5,\"perf/step_s\":1}\n{\"step\":1,\"train/loss\":0.25}\n";

class ComparedRuns : public testing::Test {
 protected:
  // A run folder with metrics and a checkpoint of `updates` updates.
  std::string make(const std::string& name, const std::string& metrics = kMetrics,
                   int64_t updates = 2, const std::string& state = "{\"best\":1}",
                   int64_t step = 2) {
    const std::filesystem::path dir = folder_ / name;
    make_dirs(dir);
    write_file_atomic(dir / "metrics.jsonl", metrics);
    const auto weights = std::make_shared<ToyWeights>();
    for (int64_t i = 0; i < updates; ++i) weights->update(i);
    Json run = Json::object();
    run.set("state", parse_json(state, "state"));
    CheckpointStore(dir / "checkpoints", 2).save(step, run, {{"weights", weights}});
    return dir;
  }
  // Returns "what: text" of the first difference, "" if there is none.
  std::string difference(const std::string& a, const std::string& b) {
    for (const FirstDivergence& divergence : first_divergences(a, b, "one", "other")) {
      if (!divergence.same) return divergence.what + ": " + divergence.text;
    }
    return "";
  }
  ScratchFolder folder_;
};

TEST_F(ComparedRuns, EqualRunsHaveNoDivergence) {
  const std::string a = make("a");
  const std::string b = make(
      "b", "{\"step\":0,\"train/loss\":0.5,\"perf/step_s\":9}\n{\"step\":1,\"train/loss\":0.25}\n");
  EXPECT_EQ(difference(a, b), "");
  const std::vector<FirstDivergence> all = first_divergences(a, b, "one", "other");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].text, "2 lines of 1 metrics, equal");
  EXPECT_EQ(all[1].what, "weights");
  EXPECT_EQ(all[1].text, "4 values, equal bit for bit");
  EXPECT_EQ(all[2].what, "run.state");
}

TEST_F(ComparedRuns, NamesTheFirstStepAndMetric) {
  const std::string a = make("a");
  EXPECT_EQ(difference(a, make("b",
                               "{\"step\":0,\"train/loss\":0.5}\n{\"step\":1,\"train/loss\":"
                               "0.2500000001}\n")),
            "metrics: step 1: train/loss is 0.25 in one, 0.2500000001 in other");
  EXPECT_EQ(difference(a, make("c", "{\"step\":0,\"train/loss\":0.5}\n")),
            "metrics: step 1: one logged train/loss, other did not");
  EXPECT_EQ(difference(a, make("d",
                               "{\"step\":0,\"train/loss\":0.5,\"train/x\":1}\n"
                               "{\"step\":1,\"train/loss\":0.25}\n")),
            "metrics: step 0: other logged train/x, one did not");
}

TEST_F(ComparedRuns, NamesTheFirstTensorAndElement) {
  EXPECT_TRUE(difference(make("a"), make("b", kMetrics, 3))
                  .starts_with("weights: weight differs in 4 of 4 values, the first at 0: "));
}

TEST_F(ComparedRuns, FindsADifferenceInTheState) {
  EXPECT_EQ(difference(make("a"), make("b", kMetrics, 2, "{\"best\":2}")),
            "run.state: run.state.state.best is 1 in one, 2 in other");
}

TEST_F(ComparedRuns, FindsADifferenceInTheNewestCheckpoint) {
  EXPECT_EQ(difference(make("a"), make("b", kMetrics, 2, "{\"best\":1}", 3)),
            "checkpoint: the newest is step_0000002 in one, step_0000003 in other");
}

TEST_F(ComparedRuns, ARunWithoutCheckpointsIsRefused) {
  const std::string a = make("a"), b = make("b");
  std::filesystem::remove_all((folder_ / "b") / "checkpoints");
  EXPECT_EQ(error_of([&] { first_divergences(a, b, "one", "other"); }), "other has no checkpoint");
  EXPECT_NE(error_of([&] {
              first_divergences(a, "nowhere", "one", "other");
            }).find("nowhere/metrics.jsonl: cannot be opened: No such file or directory"),
            std::string::npos);
}

}  // namespace
}  // namespace xrun::first_divergence_test
