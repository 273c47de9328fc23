// What a resumed run gives back, and what it must find unchanged.

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "tests/core/run/scratch_folder.h"
#include "tests/core/run/toy_run.h"

namespace xrun::run_resume_test {
namespace {

// A run in `dir`, resumed if one stands there.
std::unique_ptr<Run> open_run(const std::filesystem::path& dir, bool force = false) {
  RunDirOptions options{dir, true, force};
  SavedObjects saved{{"weights", std::make_shared<ToyWeights>()}};
  return std::make_unique<Run>(RunDir::open(toy_identity(), options), RunSettings{}, saved);
}

void loop(Run& run, int64_t steps) {
  run.begin_phase({steps, Json::object()}, Json::object());
  while (run.begin_body(Json::object())) run.mark_updated();
}

TEST(RunResume, AnEvaluationBetweenLoopsComesBackWhileReplaying) {
  const ScratchFolder folder;
  const MetricList first = {{"valid/loss", 0.25}}, second = {{"valid/loss", std::nan("")}};
  {
    const auto run = open_run(folder / "run");
    run->remember("evaluate", first);
    loop(*run, 2);
    run->remember("evaluate b", second);
    loop(*run, 2);
    run->remember("evaluate", first);
    run->finish(Json::object());
  }
  RunDirOptions options{folder / "run", true, false};
  xrun::Run run(RunDir::open(toy_identity(2), options), {},
                {{"weights", std::make_shared<ToyWeights>()}});
  ASSERT_TRUE(run.replaying());
  EXPECT_EQ(run.recall("evaluate"), first);
  loop(run, 2);
  ASSERT_TRUE(run.replaying());
  const MetricList back = run.recall("evaluate b");
  ASSERT_EQ(back.size(), 1u);
  EXPECT_TRUE(std::isnan(back[0].second));
  EXPECT_TRUE(run.recall("another").empty());
  loop(run, 3);
  EXPECT_FALSE(run.replaying()) << "what follows the checkpoint is measured again";
}

TEST(RunResume, AChangedInputIsRefusedWithItsField) {
  const ScratchFolder folder;
  const Json before = parse_json(R"({"digest":"aa","keys":[{"rows":3}]})", "input");
  const Json now = parse_json(R"({"digest":"bb","keys":[{"rows":4}]})", "input");
  {
    const auto run = open_run(folder / "run");
    run->check_input("data", "2", "the data set v.jsonl", before);
    run->check_input("data", "2", "the data set v.jsonl", now);  // not resumed: the last one stands
    run->check_input("data", "2", "the data set v.jsonl", before);
    loop(*run, 1);
    EXPECT_TRUE(run->save_after_error(Json()).filename() == "step_0000001");
  }
  {
    const auto run = open_run(folder / "run");
    run->check_input("data", "2", "the data set v.jsonl", before);
    run->check_input("data", "3", "a new one", now);
    EXPECT_EQ(
        message_of<Error>([&] { run->check_input("data", "2", "the data set v.jsonl", now); }),
        (folder / "run").string() +
            ": cannot resume, the data set v.jsonl is not what it was:\n"
            "data[1].rows: 3 -> 4\n"
            "--run DIR starts a new run, --force resumes all the same");
  }
  const auto run = open_run(folder / "run", true);
  run->check_input("data", "2", "the data set v.jsonl", now);
  EXPECT_EQ(run->dir().notices().size(), 1u);
}

TEST(RunResume, OtherDataIsRefusedFieldByFieldBeforeAnythingIsCut) {
  const ScratchFolder folder;
  ToyLoop four;
  four.phases = {4};
  toy_run(folder / "run", four);
  const std::string before = text_of(folder / "run/metrics.jsonl");
  auto weights = std::make_shared<ToyWeights>();
  RunDirOptions options{folder / "run", true, false};
  xrun::Run run(RunDir::open(toy_identity(2), options), {}, {{"weights", weights}});
  const Json other = parse_json(R"({"key":"d2","tokenizer":"t"})", "data");
  EXPECT_EQ(message_of<Error>([&] {
              run.begin_phase({8, other}, Json());
            }),
            (folder / "run").string() +
                ": cannot resume, the data of loop 1 is not what it was "
                "trained on:\n  data.key: \"d2\", was \"d1\"\n  data.tokenizer: \"t\", was absent\n"
                "--run DIR starts a new run, --force resumes all the same");
  EXPECT_EQ(text_of(folder / "run/metrics.jsonl"), before);
}

TEST(RunResume, ADamagedPositionNamesItsFile) {
  const ScratchFolder folder;
  {
    const auto run = open_run(folder / "run");
    loop(*run, 1);
    run->save_after_error(Json());
  }
  const auto dir = folder / "run/checkpoints/step_0000001";
  Json manifest = read_json((dir / "manifest.json").string());
  put_text(dir / "run.json", "{}\n");
  manifest.find("files")->find("run.json")->set("bytes", 3);
  manifest.find("files")->find("run.json")->set("xxh3", hash_hex("{}\n"));
  put_text(dir / "manifest.json", dump_json(manifest));
  EXPECT_EQ(message_of<Error>([&] { open_run(folder / "run"); }),
            (dir / "run.json").string() + ": has no key \"phases\"; the checkpoint is damaged");
}

}  // namespace
}  // namespace xrun::run_resume_test
