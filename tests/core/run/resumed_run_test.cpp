// A resume finds its folder and takes settings, device and threads from it.

#include "core/run/resumed_run.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/run/run_dir.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::resumed_run_test {
namespace {

using Sets = std::vector<std::string>;

class FindResumedRun : public testing::Test {
 protected:
  FindResumedRun() { std::filesystem::current_path(folder_.path()); }
  ~FindResumedRun() override { std::filesystem::current_path(before_); }

  static void make_run(const std::string& dir, const Sets& sets = {}) {
    RunIdentity identity = toy_identity();
    identity.sets = sets;
    RunDir::open(identity, {dir}).begin();
  }

  const std::filesystem::path before_ = std::filesystem::current_path();
  const ScratchFolder folder_;
};

TEST_F(FindResumedRun, TakesTheSettingsFromTheNamedFolder) {
  make_run("r", {"beta=0.2", "data.1.path=a b.jsonl"});
  const ResumedRun run = find_resumed_run("toy", "r", "");
  EXPECT_EQ(run.dir, "r");
  EXPECT_EQ(run.sets, (Sets{"beta=0.2", "data.1.path=a b.jsonl"}));
}

TEST_F(FindResumedRun, TakesDeviceAndThreadsFromTheRun) {
  RunIdentity identity = toy_identity();
  identity.machine = parse_json(R"({"device":"cuda","threads":3})", "machine");
  RunDir::open(identity, {"r"}).begin();
  const ResumedRun run = find_resumed_run("toy", "r", "");
  EXPECT_EQ(run.device, "cuda");
  EXPECT_EQ(run.threads, 3);
}

TEST_F(FindResumedRun, WithoutANameFindsItsFolderOrTheNewestOfTheRecipe) {
  make_run("runs/toy-11111111");
  make_run("runs/toy-22222222", {"beta=0.2"});
  make_run("runs/other-33333333");
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time("runs/toy-11111111/run.json", now - std::chrono::hours(1));
  EXPECT_EQ(find_resumed_run("toy", "", "runs/toy-11111111").dir, "runs/toy-11111111");
  EXPECT_EQ(find_resumed_run("toy", "", "runs/toy-44444444").dir, "runs/toy-22222222");
  EXPECT_EQ(find_resumed_run("toy", "", "").sets, Sets{"beta=0.2"});
}

TEST_F(FindResumedRun, AMistypedFolderIsRefusedWithTheNearestRun) {
  make_run("first");
  EXPECT_EQ(message_of<UsageError>([] { find_resumed_run("toy", "frist", ""); }),
            "frist: this folder does not exist; wanted the folder of a run; did you mean "
            "`first`?");
  std::filesystem::create_directory("empty");
  make_run("runs/toy-11111111");
  EXPECT_EQ(message_of<UsageError>([] { find_resumed_run("toy", "empty", ""); }),
            "empty: this folder contains no run; wanted the folder of a run; the newest run of toy "
            "is runs/toy-11111111");
  EXPECT_EQ(message_of<UsageError>([] { find_resumed_run("other", "", "runs/other-22222222"); }),
            "there is no run of other in runs/, so there is nothing to resume; leave --resume out "
            "to start one, or name the folder of a run with --run DIR");
  EXPECT_FALSE(std::filesystem::exists("frist"));
}

TEST_F(FindResumedRun, FromAnotherFolderTheOneInWhichTheRunBeganIsNamed) {
  std::filesystem::create_directories("proj/tiny");
  std::filesystem::current_path("proj");
  const std::string began = std::filesystem::current_path();
  put_text("rows.jsonl", "{}");
  RunIdentity identity = toy_identity();
  identity.config = parse_json(
      R"({"model":"tiny","data":[{"path":"rows.jsonl"},{"path":"nowhere.jsonl"}]})", "config");
  RunDir::open(identity, {"r"}).begin();
  check_working_folder("r", {});
  std::filesystem::current_path("..");
  EXPECT_EQ(message_of<UsageError>([] { check_working_folder("proj/r", {}); }),
            "proj/r: the run began in " + began +
                ", where model is \"tiny\", which is not here; resume from there: cd " + began);
  const std::string data =
      message_of<UsageError>([] { check_working_folder("proj/r", {"model=proj/tiny"}); });
  EXPECT_NE(data.find("where data.1.path is \"rows.jsonl\""), std::string::npos) << data;
  check_working_folder("proj/r", {"model=proj/tiny", "data.1.path=proj/rows.jsonl"});
}

// Killed while it read its data: the lock is there and run.json is not.
TEST_F(FindResumedRun, ARunThatWasKilledBeforeItBeganIsFound) {
  std::filesystem::create_directory("r");
  put_text("r/lock", "");
  EXPECT_EQ(find_resumed_run("toy", "r", "").dir, "r");
  EXPECT_TRUE(find_resumed_run("toy", "r", "").sets.empty());
}

TEST(JoinedSets, LaterSettingsReplaceEarlierOnesOfTheSameKey) {
  EXPECT_EQ(joined_sets({"beta=0.2", "steps=4"}, {"steps=9", "x=1"}),
            (Sets{"beta=0.2", "steps=9", "x=1"}));
  // One of the two decides the length of a run.
  EXPECT_EQ(joined_sets({"beta=0.2", "steps=4"}, {"epochs=2"}), (Sets{"beta=0.2", "epochs=2"}));
}

}  // namespace
}  // namespace xrun::resumed_run_test
