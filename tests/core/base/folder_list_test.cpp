#include "core/base/folder_list.h"

#include <gtest/gtest.h>

#include "core/base/file.h"
#include "tests/core/data/rows/scratch_folder.h"

namespace xrun::folder_list_test {
namespace {

TEST(FolderList, EntriesStandByName) {
  const ScratchFolder folder;
  for (const char* name : {"b", "a", "c"}) folder.write(name, "");
  const std::vector<std::filesystem::path> wanted = {folder.path() / "a", folder.path() / "b",
                                                     folder.path() / "c"};
  EXPECT_EQ(list_folder(folder.path()), wanted);
}

TEST(FolderList, AFolderThatIsNotThereIsEmptyAndOneThatCannotBeListedIsAnError) {
  const ScratchFolder folder;
  folder.write("file", "");
  EXPECT_TRUE(list_folder(folder.path() / "none").empty());
  EXPECT_THROW(list_folder(folder.path() / "file"), FileError);
  std::error_code code;
  EXPECT_TRUE(list_folder(folder.path() / "file", code).empty());
  EXPECT_TRUE(static_cast<bool>(code));
}

TEST(NearestExisting, IsTheFolderItselfOrTheFirstAboveThatIsThere) {
  const ScratchFolder folder;
  EXPECT_EQ(nearest_existing(folder.path()), folder.path());
  EXPECT_EQ(nearest_existing(folder.path() / "a" / "b"), folder.path());
  EXPECT_EQ(nearest_existing("no-folder-of-this-name"), std::filesystem::current_path());
  EXPECT_EQ(nearest_existing("/"), "/");
}

}  // namespace
}  // namespace xrun::folder_list_test
