// A run is refused without disk space for one checkpoint.

#include "core/run/machine.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"

namespace xrun::machine_test {
namespace {

TEST(DiskSpace, RefusesWithoutRoomForOneCheckpointAndWarnsWithoutRoomForAll) {
  const std::filesystem::path dir = std::filesystem::temp_directory_path() / "not/there/yet";
  constexpr int64_t kTooMuch = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(check_disk_space(dir, {1, 3, 1}), "");
  try {
    check_disk_space(dir, {.checkpoint = kTooMuch});
    FAIL() << "a disk of 9.2 EB";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with(dir.string() + ": ")) << text;
    EXPECT_NE(text.find("are free on this disk, a checkpoint of this run takes "),
              std::string::npos)
        << text;
  }
  const std::string warning = check_disk_space(dir, {1, 3, kTooMuch});
  EXPECT_NE(warning.find("up to 3 checkpoints of 1 byte"), std::string::npos) << warning;
  EXPECT_NE(warning.find("save.keep"), std::string::npos) << warning;
  EXPECT_EQ(warning.find("answers"), std::string::npos) << warning;
  const std::string answers = check_disk_space(dir, {1, 3, 1, kTooMuch});
  EXPECT_NE(answers.find("about 9223372 TB of sampled answers"), std::string::npos) << answers;
  EXPECT_NE(answers.find("older files of rollouts/ may be moved away"), std::string::npos)
      << answers;
}

}  // namespace
}  // namespace xrun::machine_test
