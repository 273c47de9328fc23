// A run's folder is read even if files are missing or damaged, and these are named.

#include "core/run/record/run_files.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/scratch_folder.h"

namespace xrun::run_files_test {
namespace {

namespace fs = std::filesystem;

void put_run(const fs::path& dir) {
  fs::create_directories(dir / "samples");
  put_text(dir / "run.json", R"({"format":1,"recipe":"dpo"})");
  put_text(dir / "config.json", R"({"config":{"beta":0.1},"origins":{"beta":"--set"}})");
  put_text(dir / "recipe.lua", "return 1\n");
  put_text(dir / "ledger.json", R"({"rows":3})");
  put_text(dir / "metrics.jsonl", "{\"step\":0,\"a\":1}\n");
  put_text(dir / "samples/step_0000016.jsonl", "{\"text\":\"late\"}\n");
  put_text(dir / "samples/step_0000002.jsonl", "{\"text\":\"early\"}\n{\"text\":\"two\"}\n");
}

TEST(RunFiles, MatchTheFolder) {
  const ScratchFolder folder;
  put_run(folder / "mine");
  const RunFiles run = read_run_files(folder / "mine");
  EXPECT_EQ(run.name, "mine");
  EXPECT_EQ(run.config.at("beta").as_double(), 0.1);
  EXPECT_EQ(run.origins.at("beta").as_string(), "--set");
  EXPECT_EQ(run.ledger.at("rows").as_int(), 3);
  EXPECT_EQ(run.recipe, "return 1\n");
  EXPECT_EQ(run.metrics.objects, 1);
  ASSERT_EQ(run.samples.size(), 2u);
  EXPECT_EQ(run.samples[0].step, 2);
  EXPECT_EQ(run.samples[0].answers.size(), 2u);
  EXPECT_EQ(run.samples[1].answers[0].at("text").as_string(), "late");
  EXPECT_TRUE(run.profile.is_null());
  EXPECT_TRUE(run.notices.empty());
}

TEST(RunFiles, MissingFilesAreNamed) {
  const ScratchFolder folder;
  put_text(folder / "run.json", "{}");
  const RunFiles run = read_run_files(folder.path());
  const std::vector<std::string> wanted = {"config.json is missing: the settings are unknown",
                                           "recipe.lua is missing: the recipe's text is unknown",
                                           "ledger.json is missing: the counts of rows are unknown",
                                           "metrics.jsonl is missing: nothing was logged"};
  EXPECT_EQ(run.notices, wanted);
}

TEST(RunFiles, DamagedFilesAreNamed) {
  const ScratchFolder folder;
  put_run(folder / "mine");
  put_text(folder / "mine/config.json", "{\"config\":");
  put_text(folder / "mine/ledger.json", "[1]");
  put_text(folder / "mine/samples/step_0000002.jsonl", "7\n");
  const RunFiles run = read_run_files(folder / "mine");
  ASSERT_EQ(run.notices.size(), 3u);
  EXPECT_TRUE(run.notices[0].starts_with("config.json cannot be read: ")) << run.notices[0];
  EXPECT_TRUE(run.notices[1].starts_with("ledger.json cannot be read: ")) << run.notices[1];
  EXPECT_TRUE(run.notices[2].starts_with("samples of step 2 cannot be read: "));
  EXPECT_EQ(run.samples.size(), 1u);
}

TEST(RunFiles, SamplesComeFromTheFirstAndTheLastStep) {
  const ScratchFolder folder;
  put_run(folder / "mine");
  for (int step = 3000; step > 16; --step) {
    put_text(folder / ("mine/samples/step_" + std::to_string(step) + ".jsonl"), "7\n");
  }
  put_text(folder / "mine/samples/step_3001.jsonl", "{\"text\":\"last\"}\n");
  const RunFiles run = read_run_files(folder / "mine");
  ASSERT_EQ(run.samples.size(), 2u);
  EXPECT_EQ(run.samples[0].step, 2);
  EXPECT_EQ(run.samples[1].step, 3001);
  EXPECT_EQ(run.samples_left_out, 2985);
  EXPECT_TRUE(run.notices.empty());
}

TEST(RunFiles, ANewerFormatIsRefused) {
  const ScratchFolder folder;
  put_text(folder / "run.json", R"({"format":2})");
  EXPECT_EQ(message_of<UsageError>([&] { read_run_files(folder.path()); }),
            folder.path().string() +
                ": is a run of format 2, this xrun reads formats up to 1; use the xrun that made "
                "it, or a newer one");
  put_text(folder / "run.json", R"({"format":"x\u001b"})");
  EXPECT_EQ(
      message_of<Error>([&] { read_run_files(folder.path()); }),
      (folder / "run.json").string() +
          ": its format is \"x\\u001b\", wanted a whole number of at least 1; the file is damaged");
}

TEST(RunFiles, RunsOfOneNameAreNamedByTheirPaths) {
  const ScratchFolder folder;
  put_run(folder / "x/mine");
  put_run(folder / "y/mine");
  put_run(folder / "other");
  const std::string x = (folder / "x/mine").string();
  const std::string y = (folder / "y/mine").string();
  const auto runs = read_runs({x, y, (folder / "other").string()});
  EXPECT_EQ(runs[0].name, x);
  EXPECT_EQ(runs[1].name, y);
  EXPECT_EQ(runs[2].name, "other");
}

TEST(RunFiles, StepsDoneComeFromTheRecordElseTheLog) {
  RunFiles run;
  run.metrics.last_step = 16;  // logged after the last body
  EXPECT_EQ(steps_done(run), 17);
  run.record = Json(Json::Object{{"steps", 16}});
  EXPECT_EQ(steps_done(run), 16);
}

TEST(RunFiles, TheNewestCheckpointsManifestIsRead) {
  const ScratchFolder folder;
  put_run(folder / "mine");
  fs::create_directories(folder / "mine/checkpoints/step_0000003");
  put_text(folder / "mine/checkpoints/latest", "step_0000003\n");
  put_text(folder / "mine/checkpoints/step_0000003/manifest.json", R"({"step":3})");
  EXPECT_EQ(read_run_files(folder / "mine").checkpoint.at("step").as_int(), 3);
  put_text(folder / "mine/checkpoints/latest", "../..\n");
  EXPECT_EQ(read_run_files(folder / "mine").notices.size(), 1u);
}

TEST(RunFiles, AFolderOfRunsNamesThem) {
  const ScratchFolder folder;
  put_run(folder / "one");
  put_run(folder / "without_a_step");
  put_text(folder / "without_a_step/metrics.jsonl", "");
  EXPECT_EQ(message_of<UsageError>([&] { read_run_files(folder.path()); }),
            folder.path().string() +
                ": is not a run: it has no run.json; these below it are runs: " +
                (folder / "one").string());
  EXPECT_EQ(message_of<UsageError>([&] { read_run_files(folder / "two"); }),
            (folder / "two").string() + ": this folder does not exist; wanted the folder of a run");
}

}  // namespace
}  // namespace xrun::run_files_test
