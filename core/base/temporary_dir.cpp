// The folder is TMPDIR/xrun-NAME-XXXXXX, locked by its owner. Removing it takes system calls alone,
// so that a signal handler may do it.

#include "core/base/temporary_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "core/base/error.h"
#include "core/base/folder.h"

namespace xrun {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLongestPath = 1024;
constexpr int kDeepest = 16;  // a run's folders are three deep
constexpr time_t kNewS = 10;  // its owner may not have locked it yet

// A static table of plain buffers, since a signal handler may neither allocate nor take a lock.
struct TemporarySlot {
  std::atomic<bool> taken{false};  // path is complete: a signal handler may read it
  std::array<char, kLongestPath> path;
};
std::array<TemporarySlot, 4> slots;

// The record that getdents64(2) fills.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[];
};

// Declared first: the two functions call each other.
void remove_folder(int parent, const char* name, int depth) noexcept;

bool is_dots(const char* name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

// Removes the entries that one read of the folder returns; false at its end.
bool remove_some(int folder, int depth) noexcept {
  // An entry takes at most 280 bytes; the caller reads until none are left.
  alignas(DirectoryEntry) char buffer[2048];
  // opendir allocates, and malloc is not safe in a handler.
  const long size = syscall(SYS_getdents64, folder, buffer, sizeof buffer);
  for (long at = 0; at < size;) {
    const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
    at += entry->length;
    if (is_dots(entry->name)) continue;
    // A link is removed, not followed.
    if (unlinkat(folder, entry->name, 0) == 0 || errno != EISDIR) continue;
    // If this fails the entry stays; the next read continues after it, so the caller's loop ends.
    remove_folder(folder, entry->name, depth + 1);
  }
  return size > 0;
}

void remove_folder(int parent, const char* name, int depth) noexcept {
  // Relative to the open parent, and without links: a folder swapped for a link meanwhile cannot
  // lead the removal elsewhere.
  const int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  while (depth < kDeepest && remove_some(folder, depth)) {
  }
  close(folder);
  unlinkat(parent, name, AT_REMOVEDIR);
}

// Returns a descriptor of the folder that holds an exclusive lock on it, which ends with the owner;
// -1 if it cannot be locked. `flags` may be LOCK_NB.
int lock_folder(const char* path, int flags) {
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  int failed = 0;
  do {
    failed = flock(folder, LOCK_EX | flags);
  } while (failed != 0 && errno == EINTR);
  if (failed == 0) return folder;
  close(folder);
  return -1;
}

// Removes folders of this name that no process has locked. Their owners were killed.
void remove_stale_folders(const fs::path& home, const std::string& prefix) {
  std::error_code ignored;
  for (const fs::path& path : list_folder(home, ignored)) {
    if (!path.filename().string().starts_with(prefix)) continue;
    const int folder = lock_folder(path.c_str(), LOCK_NB);
    if (folder < 0) continue;
    struct stat status {};
    // Between mkdtemp and lock_folder a new folder has no lock yet.
    const bool old = fstat(folder, &status) == 0 && time(nullptr) - status.st_mtime > kNewS;
    if (old && status.st_uid == geteuid()) remove_folder(AT_FDCWD, path.c_str(), 0);
    close(folder);
  }
}

}  // namespace

fs::path temporary_root() {
  std::error_code code;
  fs::path root = fs::temp_directory_path(code);
  const char* const wanted = getenv("TMPDIR");
  XRUN_CHECK(!code,
             "{}: is not a folder for temporary files: {}; set TMPDIR to one that can be written",
             wanted == nullptr ? "/tmp" : wanted, code.message());
  return root;
}

TemporaryDir::TemporaryDir(const std::string& name) {
  const fs::path home = temporary_root();
  const std::string prefix = fmt::format("xrun-{}-", name);
  remove_stale_folders(home, prefix);
  std::string path = (home / (prefix + "XXXXXX")).string();
  XRUN_CHECK(mkdtemp(path.data()) != nullptr,
             "{}: cannot be created: {}; set TMPDIR to a folder that "
             "can be written",
             path, strerror(errno));
  path_ = path;
  // Waits: remove_stale_folders in another process holds the lock of a new folder for an instant.
  // Without its own lock the folder would count as stale after kNewS.
  lock_ = lock_folder(path.c_str(), 0);
  // A folder beyond the slots is removed by its destructor, or after a kill by the next process.
  for (TemporarySlot& slot : slots) {
    if (slot.taken.load() || path.size() >= kLongestPath) continue;
    // The path first, then the flag: a handler reads the path of a taken slot.
    memcpy(slot.path.data(), path.c_str(), path.size() + 1);
    slot.taken.store(true);
    break;
  }
}

TemporaryDir::~TemporaryDir() {
  // The slot first: a signal that arrives now must not start a second removal.
  for (TemporarySlot& slot : slots) {
    if (slot.taken.load() && path_ == slot.path.data()) slot.taken.store(false);
  }
  remove_folder(AT_FDCWD, path_.c_str(), 0);
  if (lock_ >= 0) close(lock_);
}

// For a signal handler: no allocation, no lock, no exception.
void remove_temporary_dirs() noexcept {
  for (TemporarySlot& slot : slots) {
    if (slot.taken.load()) remove_folder(AT_FDCWD, slot.path.data(), 0);
  }
}

}  // namespace xrun
