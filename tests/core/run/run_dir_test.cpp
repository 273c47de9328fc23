// A run's folder has one process at a time, and nothing in it is overwritten without a resume.

#include "core/run/run_dir.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "core/base/error.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::run_dir_test {
namespace {

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

TEST(RunDir, AStartThatFailedInItsFirstBodyLeavesNothing) {
  const ScratchFolder folder;
  const auto fail_in = [&](const char* name, const char* more) {
    RunDir dir = open_dir(folder / name);
    dir.begin();
    dir.log_line("x");
    std::filesystem::create_directory(dir.checkpoints());
    for (const char* made : {"tb", "samples"}) std::filesystem::create_directory(dir.file(made));
    put_text(dir.file("tb/events.out.tfevents.1.xrun"), "x");
    put_text(dir.file("samples/step_0000000.jsonl"), "{}");
    put_text(dir.file("metrics.jsonl"), "");
    if (*more != 0) put_text(folder / name / more, "{}");
    dir.undo_begin();
  };
  fail_in("run", "");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  // Steps stay with the run, and so do the user's files and what a message names.
  for (const char* more : {"metrics.jsonl", "checkpoints/step_0000001", "failed_batch.json",
                           "notes.txt", "tb/notes.txt"}) {
    std::string name = more;
    std::replace(name.begin(), name.end(), '/', '_');
    fail_in(name.c_str(), more);
    EXPECT_TRUE(std::filesystem::exists(folder / name / "run.json")) << more;
    EXPECT_TRUE(std::filesystem::exists(folder / name / "samples/step_0000000.jsonl")) << more;
  }
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

TEST(RunDir, IsNamedByRecipeAndHash) {
  const ScratchFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(open_dir("").path(), "runs/toy-" + short_hash(toy_identity()));
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace xrun::run_dir_test
