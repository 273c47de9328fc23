// flock is polled, so that a wait can be interrupted. A lock counts only while the path still names
// the locked file.

#include "core/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"

namespace xrun {

namespace {

constexpr auto kLockPoll = std::chrono::milliseconds(50);

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, bool wait,
                   const std::function<void()>& waiting) {
  try {
    // Polled, not blocked in flock: `waiting` may throw, and the path may name another file by
    // then.
    while (!try_lock(path) && wait) {
      if (waiting) waiting();
      std::this_thread::sleep_for(kLockPoll);
    }
  } catch (...) {
    close_file();
    throw;
  }
}

// Takes the lock if nobody holds it. The holder may have removed the file meanwhile: the lock
// counts only if the path still names the locked file.
bool FileLock::try_lock(const std::filesystem::path& path) {
  check_write(path);
  if (path.has_parent_path()) make_dirs(path.parent_path());
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0 && errno == ENOENT) return false;  // the folder was removed just now
  if (fd_ < 0) throw_file_error(path, "be opened for a lock");
  int result = 0;
  do {
    // flock belongs to the open file and not to the process: it also excludes other threads, and
    // closing the descriptor releases it.
    result = ::flock(fd_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EWOULDBLOCK) throw_file_error(path, "be locked");
  struct stat ours {};
  struct stat named {};
  held_ = result == 0 && ::fstat(fd_, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
          ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
  if (!held_) close_file();
  return held_;
}

void FileLock::close_file() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

FileLock::~FileLock() { close_file(); }

bool is_locked(const std::filesystem::path& path) {
  try {
    return is_file(path) && !FileLock(path, /*wait=*/false).held();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace xrun
