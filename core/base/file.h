#pragma once
// Durable files (written whole, synced, renamed into place), read-only maps and locks.
//
// Every durable write, fsync and rename, and every read of a data file, passes one gate
// at which tests make the n-th operation fail (set_file_fault, or XRUN_FILE_FAULT="write:3" in the
// environment of a child process).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace xrun {

// The system refused an operation on a file, whatever its contents.
class FileError : public Error {
 public:
  FileError(int code, const std::string& message) : Error(message), code_(code) {}
  int code() const { return code_; }  // errno

 private:
  int code_;
};

// Returns true if the path exists. Throws Error with the reason if the system cannot tell: a folder
// that may not be entered, a name that is too long.
bool path_exists(const std::filesystem::path& path);

// True for a regular file; false if there is none or it cannot be examined.
bool is_file(const std::filesystem::path& path);

// Returns the whole file. Throws Error if it cannot be read or is larger than max_bytes.
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = UINT64_MAX);

// Throws Error that names the file and the fix if `bytes`, all of a file or its beginning, are the
// pointer that a Git clone without Git LFS has in place of a large file. read_file calls it.
void refuse_lfs_pointer(std::string_view bytes, const std::string& path);

// Replaces `path` by `bytes`: temporary name, fsync, rename, fsync of the folder. After a failure
// or a kill at any moment `path` holds the old bytes or the new ones. Throws Error.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

// Makes renames and new files inside `dir` durable. Throws Error.
void sync_dir(const std::filesystem::path& dir);

// Renames and syncs the folder of the target. Throws Error.
void rename_durable(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes a folder and its parents; an existing one is fine. Throws Error that names the path.
void make_dirs(const std::filesystem::path& dir);

// Writes one new file (or appends to one) through a buffer. Not thread-safe.
class FileWriter {
 public:
  enum class Mode { kTruncate, kAppend };
  // Throws Error that names the path if it cannot be opened.
  explicit FileWriter(const std::filesystem::path& path, Mode mode = Mode::kTruncate);
  ~FileWriter();  // closes without a flush if close() was not called
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);
  void write(const void* data, uint64_t size);
  void flush();  // buffer to the system
  void sync();   // flush and fsync
  void close();  // flush, and close; throws if the system reports a late failure
  uint64_t size() const { return size_; }  // bytes written through this object

 private:
  void write_through(const char* data, uint64_t size);

  std::filesystem::path path_;
  std::string buffer_;
  uint64_t size_ = 0;
  int fd_ = -1;
};

// Maps a whole file read-only. The caller copies what must survive a later truncation of the file.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws Error if the file cannot be opened or mapped; an empty file gives an empty view.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::string_view bytes() const { return {data_, size_}; }
  // Releases the memory of the pages read so far; the system reads them again on demand.
  void forget() const;

 private:
  const char* data_ = nullptr;
  uint64_t size_ = 0;
};

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

// Reads up to `size` bytes of an open file, fewer only at its end. Returns -1 and sets errno if
// the system cannot.
int64_t read_open_file(int fd, char* to, size_t size);

// Makes the nth operation (1-based) of a kind fail, and all later ones too: "write", "fsync" and
// "rename" as a full disk would, "read" (read_open_file only) as a lost disk would; nth = 0
// switches it off. For tests. Not thread-safe.
void set_file_fault(std::string_view operation, int64_t nth);

}  // namespace xrun
