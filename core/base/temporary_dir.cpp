// The folder is TMPDIR/xrun-NAME-XXXXXX, locked by its owner. Removal uses only system calls, so a
// signal handler can do it.

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
#include <cstdint>
#include <ctime>
#include <system_error>

#include "core/base/error.h"
#include "core/base/folder.h"

namespace xrun {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLongestPath = 1024;
// Bounds the stack and the open descriptors of a removal. A run's folders are three deep, but a
// recipe that is not trusted may nest its own without limit.
constexpr int kDeepest = 16;
constexpr time_t kNewS = 10;  // its owner may not have locked it yet

// A static table of plain buffers, since a signal handler may neither allocate nor take a lock.
enum class SlotState : uint8_t { kFree, kReserved, kFilled };
struct TemporarySlot {
  std::atomic<SlotState> state{SlotState::kFree};  // a signal handler reads the path of kFilled
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

// The removal of one folder with all its contents.
struct Removal {
  int root = -1;       // descriptor of the folder
  uint32_t moved = 0;  // folders that were moved up into it
  uint32_t name = 0;   // number of the next such name
};

// Declared first: the two functions call each other.
void remove_subfolder(int parent, const char* name, int depth, Removal& removal) noexcept;

bool is_dots(const char* name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

// Moves a subfolder that is too deep up into the root, which is read again until none was moved.
void move_up(int parent, const char* name, Removal& removal) noexcept {
  // snprintf is not safe in a handler.
  char target[] = "deep-00000000";
  do {
    uint32_t rest = removal.name++;
    for (size_t i = sizeof target - 2; target[i] != '-'; --i, rest >>= 4) {
      target[i] = "0123456789abcdef"[rest & 15];
    }
    if (renameat(parent, name, removal.root, target) == 0) {
      ++removal.moved;
      return;
    }
    // The root has an entry of that name already.
  } while (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR);
}

// Removes the entries that one read of the folder returns; false at its end.
bool remove_some(int folder, int depth, Removal& removal) noexcept {
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
    if (depth + 1 < kDeepest) {
      remove_subfolder(folder, entry->name, depth + 1, removal);
    } else {
      move_up(folder, entry->name, removal);
    }
  }
  return size > 0;
}

// Opens a folder relative to its open parent, and without links: a folder swapped for a link
// meanwhile cannot lead the removal elsewhere.
int open_folder(int parent, const char* name) noexcept {
  return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void remove_subfolder(int parent, const char* name, int depth, Removal& removal) noexcept {
  const int folder = open_folder(parent, name);
  if (folder < 0) return;
  while (remove_some(folder, depth, removal)) {
  }
  close(folder);
  unlinkat(parent, name, AT_REMOVEDIR);
}

void remove_folder(const char* path) noexcept {
  Removal removal{.root = open_folder(AT_FDCWD, path)};
  if (removal.root < 0) return;
  uint32_t before = 0;
  do {
    before = removal.moved;
    // A read that began before a move may not return the moved folder.
    lseek(removal.root, 0, SEEK_SET);
    while (remove_some(removal.root, 0, removal)) {
    }
  } while (removal.moved != before);
  close(removal.root);
  rmdir(path);
}

// Returns a descriptor of the folder that holds an exclusive lock on it, which ends with the owner;
// -1 if it cannot be locked. `flags` may be LOCK_NB.
int lock_folder(const char* path, int flags) {
  const int folder = open_folder(AT_FDCWD, path);
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
    if (old && status.st_uid == geteuid()) remove_folder(path.c_str());
    close(folder);
  }
}

}  // namespace

// Not std::filesystem::temp_directory_path(), which reads TMP, TEMP and TEMPDIR too.
fs::path temporary_root() {
  const char* const wanted = getenv("TMPDIR");
  fs::path root = wanted == nullptr || *wanted == '\0' ? "/tmp" : wanted;
  std::error_code code;
  if (!fs::is_directory(root, code) && !code) {
    code = std::make_error_code(std::errc::not_a_directory);
  }
  XRUN_CHECK(!code,
             "{}: is not a folder for temporary files: {}; set TMPDIR to one that can be written",
             root.string(), code.message());
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
  if (path.size() >= kLongestPath) return;
  for (size_t i = 0; i < slots.size(); ++i) {
    SlotState expected = SlotState::kFree;
    // Another thread may make a folder too.
    if (!slots[i].state.compare_exchange_strong(expected, SlotState::kReserved)) continue;
    memcpy(slots[i].path.data(), path.c_str(), path.size() + 1);
    slots[i].state.store(SlotState::kFilled);
    slot_ = static_cast<int>(i);
    break;
  }
}

TemporaryDir::~TemporaryDir() {
  // The slot first: a signal that arrives now must not start a second removal.
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].state.store(SlotState::kFree);
  remove_folder(path_.c_str());
  if (lock_ >= 0) close(lock_);
}

// For a signal handler: no allocation, no lock, no exception.
void remove_temporary_dirs() noexcept {
  for (TemporarySlot& slot : slots) {
    if (slot.state.load() == SlotState::kFilled) remove_folder(slot.path.data());
  }
}

}  // namespace xrun
