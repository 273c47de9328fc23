// Folders are listed in order and to the end.

#include "core/base/folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "core/base/file.h"
#include "tests/error_of.h"
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
  EXPECT_EQ(message_of<FileError>([&] { list_folder(folder.path() / "file"); }),
            (folder.path() / "file").string() + ": cannot list the folder: Not a directory");
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

TEST(AbsolutePath, BeginsAtTheRootAndKeepsTheRest) {
  EXPECT_EQ(absolute_path("/a/../b"), "/a/../b");
  EXPECT_EQ(absolute_path("a/../b"), std::filesystem::current_path() / "a/../b");
  EXPECT_EQ(working_folder(), std::filesystem::current_path());
}

TEST(AbsolutePath, OfARemovedCurrentFolderIsAnErrorWithTheFix) {
  const std::filesystem::path before = std::filesystem::current_path();
  const ScratchFolder folder;
  make_dirs(folder.path() / "gone");
  std::filesystem::current_path(folder.path() / "gone");
  std::filesystem::remove(folder.path() / "gone");
  const std::string message = message_of<FileError>([] { absolute_path("a"); });
  const std::filesystem::path whole = absolute_path("/a");
  std::filesystem::current_path(before);
  EXPECT_EQ(message,
            "the current folder cannot be found: No such file or directory; it may have been "
            "removed: change to another folder");
  EXPECT_EQ(whole, "/a");
}

TEST(NearestExisting, IsTheFolderItselfOrItsNearestParentThatExists) {
  const ScratchFolder folder;
  EXPECT_EQ(nearest_existing(folder.path()), folder.path());
  EXPECT_EQ(nearest_existing(folder.path() / "a" / "b"), folder.path());
  EXPECT_EQ(nearest_existing("no-folder-of-this-name"), std::filesystem::current_path());
  EXPECT_EQ(nearest_existing("/"), "/");
}

}  // namespace
}  // namespace xrun::folder_test
