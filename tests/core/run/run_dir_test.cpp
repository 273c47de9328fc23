// A run's folder has one process at a time, and nothing in it is overwritten without a resume.

#include "core/run/run_dir.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "core/base/error.h"
#include "core/run/checkpoint.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::run_dir_test {
namespace {

RunDir open_dir(const std::filesystem::path& path, bool resume = false, bool force = false,
                const RunIdentity& identity = toy_identity()) {
  return RunDir::open(identity, {path, resume, force});
}

TEST(RunDir, DescribesTheRun) {
  const ScratchFolder folder;
  RunDir dir = open_dir(folder / "run");
  dir.begin();
  dir.log_line("hello");
  EXPECT_EQ(text_of(folder / "run/recipe.lua"), toy_identity().recipe_text);
  const Json config = read_json((folder / "run/config.json").string());
  EXPECT_EQ(config.at("config"), toy_identity().config);
  const Json record = read_json((folder / "run/run.json").string());
  EXPECT_EQ(record.at("format").as_int(), 1);
  EXPECT_GT(record.at("environment").at("cores").as_int(), 0);
  EXPECT_GT(record.at("environment").at("memory_bytes").as_int(), 0);
  EXPECT_EQ(record.at("hash").as_string(), short_hash(toy_identity()));
  EXPECT_FALSE(record.at("finished").as_bool());
  EXPECT_TRUE(text_of(folder / "run/log.txt").ends_with("  hello\n"));
}

TEST(RunDir, IsNeverReusedWithoutResume) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_text(folder / "run/metrics.jsonl", "{\"step\":0}\n");
  EXPECT_EQ(message_of<UsageError>([&] { open_dir(folder / "run"); }),
            (folder / "run").string() +
                ": this folder already holds a run; add --resume to continue it, or choose another "
                "folder with --run DIR");
  EXPECT_TRUE(open_dir(folder / "run", true).resuming());
}

// Two starts that differ only in their length share the folder.
TEST(RunDir, ARunOfAnotherLengthIsRefusedWithBothLengths) {
  const ScratchFolder folder;
  const std::string path = (folder / "run").string();
  open_dir(path, false, false, toy_identity(2)).begin();
  put_text(folder / "run/metrics.jsonl", "{\"step\":0}\n");
  const auto refusal = [&](const RunIdentity& identity) {
    return message_of<UsageError>([&] { open_dir(path, false, false, identity); });
  };
  EXPECT_EQ(refusal(toy_identity(3)),
            path +
                ": this folder holds a run with the same settings but 2 epochs, and this start "
                "has 3 epochs; --resume --set epochs=3 lengthens it, --run DIR starts another");
  EXPECT_EQ(refusal(toy_identity(1)),
            path +
                ": this folder holds a run with the same settings but 2 epochs, and this start "
                "has 1 epoch; a resume cannot shorten it; --run DIR starts another");
  RunIdentity other = toy_identity(3);
  other.config.set("beta", 0.2);
  EXPECT_EQ(refusal(other).find("epochs"), std::string::npos) << "more than the length differs";
  write_file_atomic(folder / "run/config.json", "{");
  EXPECT_NE(refusal(toy_identity(3)).find("already holds a run"), std::string::npos);
}

TEST(RunDir, ARunThatFailedBeforeItLoggedAnythingBeginsAgain) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_text(folder / "run/metrics.jsonl", "");
  RunDir again = open_dir(folder / "run");
  again.begin();
  EXPECT_EQ(again.record().at("resumes").size(), 1u);
}

TEST(RunDir, ARunOfANewerFormatIsNotResumed) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  put_text(folder / "run/run.json", R"({"format":2})");
  EXPECT_EQ(message_of<UsageError>([&] { open_dir(folder / "run", true, true); }),
            (folder / "run").string() +
                ": is a run of format 2, this xrun reads formats up to 1; use the xrun that made "
                "it, or a newer one");
}

// A resume directly after a kill meets a process that still frees its memory.
TEST(RunDir, WaitsForALockThatIsReleasedSoon) {
  const ScratchFolder folder;
  auto first = std::make_unique<RunDir>(open_dir(folder / "run"));
  first->begin();
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    first.reset();
  });
  EXPECT_NO_THROW(open_dir(folder / "run", true, true));
  end.join();
}

TEST(SlowRunDir, HasOneProcessAtATime) {
  const ScratchFolder folder;
  const RunDir first = open_dir(folder / "run");
  EXPECT_EQ(message_of<Error>([&] { open_dir(folder / "run"); }),
            (folder / "run").string() +
                ": another process is running in this folder; wait for it, "
                "or choose another folder with --run DIR");
  EXPECT_TRUE(std::filesystem::exists(folder / "run/lock"));
}

TEST(RunDir, ARunThatNeverBeganLeavesNothing) {
  const ScratchFolder folder;
  {
    RunDir dir = open_dir(folder / "run");
    dir.log_line("x");
    dir.write_ledger(Json::object());
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(RunDir, AStartThatFailedBeforeItsFirstBodyLeavesNothing) {
  const ScratchFolder folder;
  const auto fail_in = [&](const char* name, const char* more) {
    RunDir dir = open_dir(folder / name);
    dir.begin();
    dir.log_line("x");
    std::filesystem::create_directory(dir.checkpoints());
    if (*more != 0) put_text(folder / name / more, "");
    dir.undo_begin();
  };
  fail_in("run", "");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  // The output of a body stays with the run, and a folder of the user's stays.
  fail_in("logged", "metrics.jsonl");
  EXPECT_TRUE(std::filesystem::exists(folder / "logged/run.json"));
  fail_in("saved", "checkpoints/step_0000001");
  EXPECT_TRUE(std::filesystem::exists(folder / "saved/run.json"));
  std::filesystem::create_directory(folder / "mine");
  fail_in("mine", "");
  EXPECT_TRUE(std::filesystem::exists(folder / "mine/run.json"));
}

TEST(RunDir, TakesOverTheFolderOfARunKilledBeforeItBegan) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "run");
  for (const char* name : {"lock", "recipe.lua", "config.json", "config.json.tmp123"}) {
    put_text(folder / "run" / name, "");
  }
  RunDir dir = open_dir(folder / "run");
  EXPECT_FALSE(dir.resuming());
  dir.begin();
  EXPECT_FALSE(std::filesystem::exists(folder / "run/config.json.tmp123"));
}

TEST(RunDir, AResumeRemovesWhatAKilledWriterLeftAndNothingElse) {
  const ScratchFolder folder;
  open_dir(folder / "run").begin();
  std::filesystem::create_directories(folder / "run/.hf.tmp12");
  for (const char* name : {"run.json.tmp7", ".hf.tmp12/model.safetensors", "notes.tmp7",
                           "run.json.tmp", "run.json.tmp7b"}) {
    put_text(folder / "run" / name, "");
  }
  open_dir(folder / "run", true).begin();
  EXPECT_FALSE(std::filesystem::exists(folder / "run/run.json.tmp7"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run/.hf.tmp12"));
  for (const char* name : {"notes.tmp7", "run.json.tmp", "run.json.tmp7b"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / "run" / name)) << name;
  }
}

TEST(RunDir, LeavesForeignFoldersAlone) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "thesis");
  put_text(folder / "thesis/chapter.tex", "text");
  EXPECT_EQ(message_of<UsageError>([&] { open_dir(folder / "thesis", true, true); }),
            (folder / "thesis").string() +
                ": holds chapter.tex and no run; choose another folder "
                "with --run DIR");
  EXPECT_FALSE(std::filesystem::exists(folder / "thesis/lock"));
}

TEST(RunDir, AnUnwritableFolderFailsAtOnce) {
  const ScratchFolder folder;
  put_text(folder / "file", "");
  EXPECT_EQ(message_of<Error>([&] { open_dir(folder / "file/run"); }),
            (folder / "file/run").string() +
                ": the folder cannot be created: Not a directory; choose "
                "another folder with --run DIR");
  EXPECT_EQ(message_of<UsageError>([&] { open_dir(folder / "file"); }),
            (folder / "file").string() +
                ": is a file, not a run folder; choose another folder with "
                "--run DIR");
}

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
  EXPECT_EQ(dir.notices()[0], "metrics.jsonl has no line of step 2: cut off, or damaged");
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

TEST(RunDir, IsNamedByRecipeAndHash) {
  const ScratchFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(open_dir("").path(), "runs/toy-" + short_hash(toy_identity()));
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace xrun::run_dir_test
