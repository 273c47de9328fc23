// A held folder is removed by its creator, unless it is used or still held.

#include "core/base/held_folder.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/base/file.h"
#include "tests/scratch_folder.h"

namespace xrun::held_folder_test {
namespace {

TEST(HeldFolder, IsRemovedByItsCreatorUnlessItIsUsedOrHeld) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch / "above" / "held";
  { const HeldFolder folder(path); }
  EXPECT_FALSE(path_exists(path));
  std::optional<HeldFolder> made(path);
  {
    const HeldFolder other(path);
    made.reset();
    EXPECT_TRUE(path_exists(path));  // the other one still writes below it
  }
  EXPECT_TRUE(path_exists(path));  // it was there when the last holder came
  std::filesystem::remove(path);
  {
    const HeldFolder folder(path);
    write_file_atomic(path / "file", "");
  }
  EXPECT_TRUE(path_exists(path));
}

}  // namespace
}  // namespace xrun::held_folder_test
