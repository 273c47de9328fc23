// Folders are listed in order, and temporary ones disappear even after a kill.

#include "core/base/folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/base/file.h"
#include "tests/scratch_folder.h"

namespace xrun::folder_test {
namespace {

TEST(ListFolder, SortsEntriesByName) {
  const ScratchFolder folder;
  for (const char* name : {"b", "a", "c"}) folder.write(name, "");
  const std::vector<std::filesystem::path> wanted = {folder.path() / "a", folder.path() / "b",
                                                     folder.path() / "c"};
  EXPECT_EQ(list_folder(folder.path()), wanted);
}

TEST(ListFolder, GivesNothingForAMissingFolderAndThrowsForAnUnreadableOne) {
  const ScratchFolder folder;
  folder.write("file", "");
  EXPECT_TRUE(list_folder(folder.path() / "none").empty());
  EXPECT_THROW(list_folder(folder.path() / "file"), FileError);
  std::error_code code;
  EXPECT_TRUE(list_folder(folder.path() / "file", code).empty());
  EXPECT_TRUE(static_cast<bool>(code));
}

TEST(StepFiles, AreFoundByEndingInOrderOfStep) {
  const ScratchFolder folder;
  for (const char* name : {"step_0000010.jsonl", "step_0000002.jsonl", "step_12345678.jsonl",
                           "step_9999999.jsonl", "step_0000003.jsonl.zst", "step_final.jsonl",
                           "step_.jsonl", "step_-1.jsonl", "other_0000001.jsonl", "step"}) {
    folder.write(name, "");
  }
  std::vector<int64_t> steps;
  for (const StepFile& file : step_files(folder.path(), ".jsonl")) steps.push_back(file.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 10, 9999999, 12345678}));
  EXPECT_EQ(step_files(folder.path(), ".jsonl").front().path, folder.path() / "step_0000002.jsonl");
  EXPECT_TRUE(step_files(folder.path() / "none", ".jsonl").empty());
}

TEST(NearestExisting, IsTheFolderItselfOrItsNearestParentThatExists) {
  const ScratchFolder folder;
  EXPECT_EQ(nearest_existing(folder.path()), folder.path());
  EXPECT_EQ(nearest_existing(folder.path() / "a" / "b"), folder.path());
  EXPECT_EQ(nearest_existing("no-folder-of-this-name"), std::filesystem::current_path());
  EXPECT_EQ(nearest_existing("/"), "/");
}

void fill(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "a" / "b" / "c");
  for (int i = 0; i < 200; ++i) {
    std::ofstream(folder / "a" / ("a file with a rather long name " + std::to_string(i))) << i;
  }
  std::filesystem::create_symlink("/", folder / "a" / "b" / "root");
}

TEST(TemporaryDir, IsRemovedByItsDestructor) {
  std::filesystem::path path;
  {
    const TemporaryDir folder("test");
    path = folder.path();
    fill(path);
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryDir, CanBeRemovedBeforeTheProcessEnds) {
  const TemporaryDir folder("test");
  const TemporaryDir other("test");
  EXPECT_NE(folder.path(), other.path());
  fill(folder.path());
  fill(other.path());
  remove_temporary_dirs();
  EXPECT_FALSE(std::filesystem::exists(folder.path()));
  EXPECT_FALSE(std::filesystem::exists(other.path()));
}

TEST(TemporaryDir, RemovesFoldersThatKilledProcessesLeft) {
  const std::string name = "test_left" + std::to_string(::getpid());
  const std::filesystem::path left =
      std::filesystem::temp_directory_path() / ("xrun-" + name + "-000000");
  fill(left);
  const auto before = std::filesystem::last_write_time(left) - std::chrono::minutes(1);
  std::filesystem::last_write_time(left, before);
  const TemporaryDir folder(name);
  EXPECT_FALSE(std::filesystem::exists(left));
  const TemporaryDir second(name);
  EXPECT_TRUE(std::filesystem::exists(folder.path()));
}

}  // namespace
}  // namespace xrun::folder_test
