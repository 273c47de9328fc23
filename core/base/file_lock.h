#pragma once
// Locks between processes, and between the threads of one.

#include <filesystem>
#include <functional>

namespace xrun {

// An exclusive advisory lock on a file, held until destruction; the system frees it on a kill. A
// missing folder is made, so that a holder may remove the folder with the lock.
class FileLock {
 public:
  // Returns without the lock (held() is false) if another process has it and wait is false. While
  // it waits it calls `waiting` (may be empty, may throw) every 50 ms. Throws Error if the file
  // cannot be made or the file system has no locks.
  FileLock(const std::filesystem::path& path, bool wait, const std::function<void()>& waiting = {});
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return held_; }

 private:
  bool try_lock(const std::filesystem::path& path);
  void close_file();

  int fd_ = -1;
  bool held_ = false;
};

// Returns true if the file exists and a process holds its lock. A lock that cannot be tried, such
// as one in a folder that can only be read, counts as free.
bool is_locked(const std::filesystem::path& path);

}  // namespace xrun
