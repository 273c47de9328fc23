#include "core/run/machine.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"

namespace xrun::machine_test {
namespace {

TEST(DiskSpace, SaysWhatIsFreeAndWhatIsWanted) {
  const std::filesystem::path dir = std::filesystem::temp_directory_path() / "not/there/yet";
  EXPECT_NO_THROW(check_disk_space(dir, 1));
  try {
    check_disk_space(dir, std::numeric_limits<int64_t>::max());
    FAIL() << "a disk of 9.2 EB";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with(dir.string() + ": ")) << text;
    EXPECT_NE(text.find("are free on this disk, the checkpoints of this run take "),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("save.keep"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace xrun::machine_test
