// The digests of a finished run detect every later change of its files.

#include "core/run/record/run_digests.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "tests/scratch_folder.h"

namespace xrun::run_digests_test {
namespace {

class Digests : public testing::Test {
 protected:
  Digests() {
    make_dirs(run_ / "hf");
    make_dirs(run_ / "checkpoints/step_0000004");
    for (const char* name : {"run.json", "metrics.jsonl", "log.txt", "hf/model.safetensors",
                             "checkpoints/step_0000004/manifest.json",
                             "checkpoints/step_0000004/policy.safetensors"}) {
      run_.write(name, name);
    }
    write_run_digests(run_.path());
  }
  std::vector<std::string> changed() const { return changed_run_files(run_.path()); }

  ScratchFolder run_;
};

}  // namespace

TEST_F(Digests, AnUnchangedRunHasNoChanges) { EXPECT_TRUE(changed().empty()); }

TEST_F(Digests, EveryFlippedByteIsDetected) {
  for (const std::string name : {"run.json", "metrics.jsonl", "hf/model.safetensors",
                                 "checkpoints/step_0000004/manifest.json"}) {
    for (size_t at = 0; at < name.size(); ++at) {
      std::string flipped = name;
      flipped[at] = static_cast<char>(flipped[at] ^ 1);
      put_text(run_ / name, flipped);
      ASSERT_EQ(changed().size(), 1u) << name;
      EXPECT_TRUE(changed()[0].starts_with(name + " has changed: its SHA-256 was "))
          << changed()[0];
    }
    put_text(run_ / name, name);
  }
}

TEST_F(Digests, MissingAndNewFilesAreNamed) {
  std::filesystem::remove(run_ / "metrics.jsonl");
  run_.write("hf/extra.json", "{}");
  EXPECT_EQ(changed(),
            (std::vector<std::string>{"metrics.jsonl is missing", "hf/extra.json is new"}));
}

// A prompt, a report or a resume may add to a log, and a checkpoint has its own checksums.
TEST_F(Digests, LogsAndFilesOfCheckpointsAreNotCompared) {
  put_text(run_ / "log.txt", "more");
  put_text(run_ / "checkpoints/step_0000004/policy.safetensors", "other");
  EXPECT_TRUE(changed().empty());
}

TEST_F(Digests, ADamagedListCannotNameFilesElsewhere) {
  put_text(run_ / kRunDigests, R"({"format":1,"files":{"../secret":{"bytes":1,"sha256":""}}})");
  EXPECT_NE(error_of([&] { changed(); }).find("is damaged: it names \"../secret\""),
            std::string::npos);
}

TEST_F(Digests, ARunWithoutDigestsIsReportedAsUnfinishedOrRunning) {
  std::filesystem::remove(run_ / kRunDigests);
  EXPECT_NE(error_of([&] { changed(); }).find("has no digests.json"), std::string::npos);
  run_.write("lock", "");
  EXPECT_TRUE(error_of([&] { changed(); }).ends_with("; resume the run to its end"));
  const FileLock lock(run_ / "lock", false);
  EXPECT_TRUE(error_of([&] { changed(); }).ends_with("; a process still runs in this folder"));
}

}  // namespace xrun::run_digests_test
