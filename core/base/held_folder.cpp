// Every holder has a shared lock on the folder itself; it is removed under an exclusive one.

#include "core/base/held_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "core/base/file.h"

namespace xrun {

namespace {

constexpr int kTries = 20;
constexpr std::chrono::milliseconds kPause{50};

// Tries for a second: a holder that removes the folder locks it only for an instant, but another
// program, such as flock(1), may never release it. Returns false then, and on a file system without
// locks.
bool lock_shared(int folder) {
  for (int i = 0; i < kTries; ++i) {
    if (::flock(folder, LOCK_SH | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

}  // namespace

HeldFolder::HeldFolder(const std::filesystem::path& path) : path_(path) {
  struct stat ours {};
  struct stat named {};
  // Repeated if another holder removed the folder before it was locked here.
  do {
    if (lock_ >= 0) ::close(lock_);
    made_ = !path_exists(path);
    make_dirs(path);
    lock_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0 && errno == ENOENT) continue;
    if (lock_ < 0 || !lock_shared(lock_)) return;
  } while (lock_ < 0 || ::fstat(lock_, &ours) != 0 || ::stat(path.c_str(), &named) != 0 ||
           ours.st_ino != named.st_ino || ours.st_dev != named.st_dev);
}

HeldFolder::~HeldFolder() {
  if (lock_ < 0) return;
  if (made_ && ::flock(lock_, LOCK_EX | LOCK_NB) == 0) ::rmdir(path_.c_str());
  ::close(lock_);
}

}  // namespace xrun
