// A resume continues a run of the same recipe and refuses any other; a start never loses steps.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/run/checkpoint.h"
#include "core/run/run_dir.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::run_dir_resume_test {
namespace {

// Writes the visible files of a checkpoint and the metrics lines of the steps before it.
void put_checkpoint(const std::filesystem::path& run, int64_t step) {
  const auto dir = run / "checkpoints" / checkpoint_name(step);
  std::filesystem::create_directories(dir);
  put_text(dir / "manifest.json", "{}");
  put_text(run / "checkpoints/latest", checkpoint_name(step) + "\n");
  std::string lines;
  for (int64_t i = 0; i < step; ++i) lines += "{\"step\":" + std::to_string(i) + "}\n";
  put_text(run / "metrics.jsonl", lines);
}

TEST(RunDir, ResumeRefusesAnotherRecipeFieldByField) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_checkpoint(folder / "run", 1);
  RunIdentity changed = toy_identity();
  changed.config.set("beta", 0.2);
  changed.binary.set("build", "bb");
  const std::string list = "  config.beta: 0.1 -> 0.2\n  binary.build: \"aa\" -> \"bb\"\n";
  EXPECT_EQ(
      message_of<Error>([&] { open_dir(folder / "run", true, false, changed); }),
      (folder / "run").string() +
          ": cannot resume: the recipe, its configuration or xrun has changed:\n" + list +
          "to resume with these changes, add --force; to start a new run, choose another folder "
          "with --run DIR");
  EXPECT_NE(text_of(folder / "run/log.txt")
                .find("  refused: " + (folder / "run").string() + ": cannot resume: the recipe"),
            std::string::npos);
  RunDir forced = open_dir(folder / "run", true, true, changed);
  ASSERT_EQ(forced.notices().size(), 1u);
  EXPECT_EQ(forced.notices()[0],
            "resuming by --force: the recipe, its configuration or xrun has changed:\n" + list);
  forced.begin();
  const Json record = read_json((folder / "run/run.json").string());
  EXPECT_EQ(dump_json(record.at("resumes").as_array().at(0).at("changed")),
            "[\"config.beta\",\"binary.build\"]");
  EXPECT_TRUE(record.at("resumes").as_array().at(0).at("forced").as_bool());
}

// Its later steps follow another schedule, which config.json alone would not show.
TEST(RunDir, AResumeRecordsWhatChangesWithoutForce) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_checkpoint(folder / "run", 4);
  RunIdentity longer = toy_identity(5);
  longer.config.set("save", parse_json(R"({"every":3})", "save"));
  longer.machine.set("threads", 3);
  open_dir(folder / "run", true, false, longer).begin();
  const Json record = read_json((folder / "run/run.json").string());
  const Json& resume = record.at("resumes").as_array().at(0);
  EXPECT_EQ(dump_json(resume.at("changed")),
            "[\"config.epochs\",\"config.save\",\"machine.threads\"]");
  EXPECT_FALSE(resume.at("forced").as_bool());
}

TEST(RunDir, CountsTheStepsThatWereLoggedAfterTheLastSave) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_checkpoint(folder / "run", 2);
  const auto unsaved = [&](const char* lines) {
    put_text(folder / "run/metrics.jsonl", std::string("{\"step\":0}\n{\"step\":1}\n") + lines);
    return open_dir(folder / "run", true).unsaved_steps();
  };
  EXPECT_EQ(unsaved(""), 0);
  EXPECT_EQ(unsaved("{\"step\":2,\"train/loss\":1}\n"), 1);
  EXPECT_EQ(unsaved("{\"step\":2}\n{\"step\":3}\n{\"ste"), 2);
  // An evaluation after the loop.
  EXPECT_EQ(unsaved("{\"step\":2,\"valid/loss\":1}\n"), 0);
}

// The recipe lacks what was typed at a prompt, so a resumed run trains without it.
TEST(RunDir, ResumeReportsThatAPromptWasOpened) {
  const ScratchFolder folder;
  {
    RunDir dir = open_dir(folder / "run");
    dir.record().set("interactive", true);
    dir.begin();
  }
  put_checkpoint(folder / "run", 4);
  const RunDir dir = open_dir(folder / "run", true);
  ASSERT_EQ(dir.notices().size(), 1u);
  EXPECT_TRUE(dir.notices()[0].starts_with("a prompt was opened in this run: "));
}

TEST(RunDir, AChangedRecipeStartsOverWithoutACheckpoint) {
  const ScratchFolder folder;
  {
    RunDir dir = open_dir(folder / "run");
    dir.record().set("date", "2024-01-01");
    dir.begin();
  }
  RunIdentity changed = toy_identity();
  changed.config.set("beta", 0.2);
  RunDir dir = open_dir(folder / "run", true, false, changed);
  ASSERT_EQ(dir.notices().size(), 1u);
  EXPECT_EQ(dir.notices()[0], "starting over with changes:\n  config.beta: 0.1 -> 0.2\n");
  EXPECT_EQ(dir.record().find("date"), nullptr) << "a new beginning has a new date";
  dir.begin();
  EXPECT_NE(text_of(folder / "run/config.json").find("0.2"), std::string::npos);
}

TEST(RunDir, MetricsOfAStartWithoutACheckpointAreKept) {
  const ScratchFolder folder;
  const std::string logged = "{\"step\":0}\n{\"step\":1}\n";
  open_dir(folder / "run").begin();
  for (const char* aside : {"run/metrics.jsonl.1", "run/metrics.jsonl.2"}) {
    put_text(folder / "run/metrics.jsonl", logged);
    RunDir dir = open_dir(folder / "run", true);
    ASSERT_EQ(dir.notices().size(), 1u);
    EXPECT_EQ(dir.notices()[0], "the steps logged so far are kept in " +
                                    std::filesystem::path(aside).filename().string());
    dir.begin();
    EXPECT_FALSE(std::filesystem::exists(folder / "run/metrics.jsonl"));
    EXPECT_EQ(text_of(folder / aside), logged);
  }
}

TEST(RunDir, AChangedRecipeNeverRestartsARunThatHasSteps) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_text(folder / "run/metrics.jsonl", "{\"step\":0}\n");
  RunIdentity changed = toy_identity();
  changed.config.set("beta", 0.2);
  const std::string message =
      message_of<Error>([&] { open_dir(folder / "run", true, false, changed); });
  EXPECT_NE(message.find("config.beta: 0.1 -> 0.2"), std::string::npos) << message;
  EXPECT_TRUE(std::filesystem::exists(folder / "run/metrics.jsonl"));
  open_dir(folder / "run", true, true, changed).begin();
  EXPECT_TRUE(std::filesystem::exists(folder / "run/metrics.jsonl.1"));
}

TEST(RunDir, AFreeSettingIsReportedNotRefused) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_checkpoint(folder / "run", 1);
  RunIdentity changed = toy_identity();
  changed.config.set("save", parse_json(R"({"every":5})", "save"));
  const RunDir dir = open_dir(folder / "run", true, false, changed);
  ASSERT_EQ(dir.notices().size(), 1u);
  EXPECT_EQ(dir.notices()[0],
            "settings that do not affect training have changed:\n"
            "  config.save: absent -> {\"every\":5}\n");
}

TEST(RunDir, AResumeNamesTheStepsWhoseLinesAreLost) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_checkpoint(folder / "run", 3);
  EXPECT_TRUE(open_dir(folder / "run", true).notices().empty());
  put_text(folder / "run/metrics.jsonl", "{\"step\":0}\n{\"step\":1}\n{\"ste");
  const RunDir dir = open_dir(folder / "run", true);
  ASSERT_EQ(dir.notices().size(), 1u);
  EXPECT_EQ(dir.notices()[0],
            "metrics.jsonl has no line for step 2: the file was cut off or damaged");
}

TEST(RunDir, ADamagedRecordNamesTheFix) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  for (const char* text : {"{\"format\"", "[1]", "7", ""}) {
    put_text(folder / "run/run.json", text);
    const std::string message = message_of<Error>([&] { open_dir(folder / "run", true); });
    EXPECT_NE(message.find("run.json"), std::string::npos) << message;
    EXPECT_TRUE(
        message.ends_with("; put back a copy of the file, or start another run (--run DIR)"))
        << message;
  }
}

TEST(RunDir, AnotherMachineIsReportedNotRefused) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_checkpoint(folder / "run", 1);
  RunIdentity changed = toy_identity();
  changed.machine.set("threads", 8);
  const RunDir dir = open_dir(folder / "run", true, false, changed);
  ASSERT_EQ(dir.notices().size(), 1u);
  EXPECT_NE(dir.notices()[0].find("  machine.threads: 2 -> 8\n"), std::string::npos);
}

TEST(RunDir, MoreStepsReopenAFinishedRun) {
  const ScratchFolder folder;
  {
    RunDir dir = open_dir(folder / "run");
    dir.begin();
    dir.record().set("finished", true);
    dir.write_record();
  }
  EXPECT_TRUE(open_dir(folder / "run", true).finished());
  EXPECT_FALSE(open_dir(folder / "run", true, false, toy_identity(2)).finished());
}

TEST(RunDir, AnotherTypeOfTheExportReopensAFinishedRunAtItsLastStep) {
  const ScratchFolder folder;
  const auto resume = [&](const char* dtype) {
    RunIdentity identity = toy_identity();
    identity.config.set("export", Json(Json::Object{{"dtype", dtype}}));
    return open_dir(folder / "run", true, false, identity);
  };
  {
    RunDir dir = resume("fp32");
    dir.begin();
    dir.record().set("finished", true);
    dir.record().set("steps", 3);
    dir.write_record();
  }
  EXPECT_EQ(error_of([&] { resume("bf16"); }),
            (folder / "run").string() +
                ": the finished run cannot be exported in another type, since the checkpoint of "
                "its last step, step_0000003, is missing; restore it, or leave export.dtype out");
  put_checkpoint(folder / "run", 3);
  {
    const RunDir dir = resume("bf16");
    EXPECT_FALSE(dir.finished());
    EXPECT_NE(dir.notices().back().find("is finished: nothing is trained"), std::string::npos);
  }
  EXPECT_TRUE(resume("fp32").finished());
}

TEST(RunDir, ResumeInAnEmptyFolderStartsARun) {
  const ScratchFolder folder;
  EXPECT_FALSE(open_dir(folder / "run", true).resuming());
}

}  // namespace
}  // namespace xrun::run_dir_resume_test
