// Temporary folders disappear even after a kill.

#include "core/base/temporary_dir.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/error_of.h"

namespace xrun::temporary_dir_test {
namespace {

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

TEST(TemporaryRoot, AFolderThatIsMissingIsAnErrorWithTheFix) {
  const char* const before = ::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/no/such/folder", 1);
  const std::string message = error_of([] { temporary_root(); });
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_TRUE(message.starts_with("/no/such/folder: is not a folder for temporary files: "))
      << message;
  EXPECT_TRUE(message.ends_with("; set TMPDIR to one that can be written")) << message;
  EXPECT_EQ(temporary_root(), std::filesystem::temp_directory_path());
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
}  // namespace xrun::temporary_dir_test
