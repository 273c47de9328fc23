// Temporary folders disappear even after a kill.

#include "core/base/temporary_dir.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "tests/error_of.h"

namespace xrun::temporary_dir_test {
namespace {

bool lock_made_folder = false;
std::thread first_lock;

}  // namespace
}  // namespace xrun::temporary_dir_test

// Replaces libc's, so that a test can lock a folder before its owner does.
extern "C" char* mkdtemp(char* path) noexcept {
  using namespace xrun::temporary_dir_test;
  static auto* const real = reinterpret_cast<char* (*)(char*)>(::dlsym(RTLD_NEXT, "mkdtemp"));
  char* const made = real(path);
  if (made == nullptr || !lock_made_folder) return made;
  const int folder = ::open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ::flock(folder, LOCK_EX);
  first_lock = std::thread([folder] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::close(folder);
  });
  return made;
}

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

// 10 x deeper than a removal recurses, with an entry of the name that a moved folder would get.
TEST(TemporaryDir, IsRemovedHoweverDeepItsFoldersAre) {
  std::filesystem::path path;
  {
    const TemporaryDir folder("test");
    path = folder.path();
    std::ofstream(path / "deep-00000000") << "a file";
    fill(path / "deep-00000001");
    for (const char* name : {"x", "y"}) {
      std::filesystem::path deep = path / name;
      for (int i = 0; i < 160; ++i) deep /= name;
      fill(deep);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(path);
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

// Sets or, if null, unsets an environment variable for one scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    set(value);
  }
  ~ScopedVariable() { set(before_ ? before_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const char* value) { value == nullptr ? ::unsetenv(name_) : ::setenv(name_, value, 1); }

  const char* name_;
  std::optional<std::string> before_;
};

TEST(TemporaryRoot, IsTmpWithoutTMPDIR) {
  const ScopedVariable other("TMP", "/no/such/folder");
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const ScopedVariable variable("TMPDIR", unset);
    EXPECT_EQ(temporary_root(), "/tmp");
  }
}

TEST(TemporaryRoot, AFolderThatIsMissingIsAnErrorWithTheFix) {
  const ScopedVariable variable("TMPDIR", "/no/such/folder");
  const std::string message = error_of([] { temporary_root(); });
  EXPECT_TRUE(message.starts_with("/no/such/folder: is not a folder for temporary files: "))
      << message;
  EXPECT_TRUE(message.ends_with("; set TMPDIR to one that can be written")) << message;
}

TEST(TemporaryDir, RemovesFoldersThatKilledProcessesLeft) {
  const std::string name = "test_left" + std::to_string(::getpid());
  const std::filesystem::path left = temporary_root() / ("xrun-" + name + "-000000");
  fill(left);
  const auto before = std::filesystem::last_write_time(left) - std::chrono::minutes(1);
  std::filesystem::last_write_time(left, before);
  const TemporaryDir folder(name);
  EXPECT_FALSE(std::filesystem::exists(left));
  const TemporaryDir second(name);
  EXPECT_TRUE(std::filesystem::exists(folder.path()));
}

// Another process that looks for stale folders locks a new one for an instant.
TEST(TemporaryDir, IsLockedEvenIfAnotherProcessLocksItFirst) {
  lock_made_folder = true;
  const TemporaryDir made("test");
  lock_made_folder = false;
  first_lock.join();
  const int folder = ::open(made.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_NE(::flock(folder, LOCK_EX | LOCK_NB), 0);
  ::close(folder);
}

}  // namespace
}  // namespace xrun::temporary_dir_test
