#pragma once
// Files: read whole, appended to through a buffer, or replaced durably (written under a temporary
// name, synced, renamed).

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

// Throws FileError "PATH: cannot WHAT: REASON". The reason comes from errno, so this must be the
// first call after the failure.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, const char* what);

// Returns true if the path exists. Throws FileError if the system cannot tell: a folder that may
// not be entered, a name that is too long.
bool path_exists(const std::filesystem::path& path);

// True for a regular file; false if there is none or it cannot be examined.
bool is_file(const std::filesystem::path& path);

// True for a folder; false if there is none or it cannot be examined.
bool is_folder(const std::filesystem::path& path);

// Returns the size of a file. Throws FileError if it cannot be examined.
uint64_t size_of_file(const std::filesystem::path& path);

// Returns the whole file. Throws Error if it cannot be read or is larger than max_bytes.
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = UINT64_MAX);

// Calls `each` for the pieces of a file in order, each at most 1 MiB; `total` is the number of
// bytes up to the end of the piece. Throws Error if the file cannot be read.
void read_file_pieces(const std::filesystem::path& path,
                      const std::function<void(std::string_view piece, uint64_t total)>& each);

// Throws Error with the fix if `bytes`, the start of a file, are a Git LFS pointer: a clone without
// Git LFS has one instead of each large file. read_file calls it.
void refuse_lfs_pointer(std::string_view bytes, const std::string& path);

// Rethrows an error about `temporary`, the name under which a file was written, as one about
// `path`, the name that the user knows.
[[noreturn]] void throw_named(const FileError& error, const std::filesystem::path& temporary,
                              const std::filesystem::path& path);

// Replaces `path` by `bytes`: temporary name, fsync, rename, fsync of the folder. After a failure
// or a kill at any time `path` holds the old bytes or the new ones. Throws Error.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

// Makes renames and new files inside `dir` durable. Throws Error.
void sync_dir(const std::filesystem::path& dir);

// Renames and syncs the folder of the target. Throws Error.
void rename_durable(const std::filesystem::path& from, const std::filesystem::path& to);

// Cuts a file to `bytes`, or grows it with zeros. Throws FileError.
void set_file_size(const std::filesystem::path& path, uint64_t bytes);

// Removes a file, or a folder with everything in it; a missing one is fine. Throws FileError.
void remove_tree(const std::filesystem::path& path);

// Makes a folder and its parents; an existing one is fine. Throws Error that names the path.
void make_dirs(const std::filesystem::path& dir);

// Writes one new file (or appends to one) through a buffer. Not thread-safe.
class FileWriter {
 public:
  enum class Mode { kTruncate, kAppend };
  // Bytes per write. The page cache holds a new file in pieces as large as its writes and maps
  // whole pieces: 32 scattered rows of a mapped cache took 226 MB of memory with writes of 1 MiB,
  // 38 MB with these.
  static constexpr uint64_t kWriteBytes = 1 << 16;
  // Throws Error that names the path if it cannot be opened.
  explicit FileWriter(const std::filesystem::path& path, Mode mode = Mode::kTruncate);
  ~FileWriter();  // closes without a flush if close() was not called
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);
  void write(const void* data, uint64_t size);
  void flush();  // buffer to the system; after a failure it may be called again
  void sync();   // flush and fsync
  void close();  // flush, and close; throws if the system reports a late failure
  uint64_t size() const { return size_; }  // bytes written through this object

 private:
  void write_through(std::string_view& bytes);

  std::filesystem::path path_;
  std::string buffer_;
  uint64_t size_ = 0;
  int fd_ = -1;
};

// Returns a descriptor of a file to read, after check_read; -1 with errno set if the system cannot.
// In a process that runs an untrusted recipe, throws Error for anything but a regular file or a
// folder, since a pipe would wait for its writer.
int open_to_read(const std::filesystem::path& path);

// Reads up to `size` bytes of an open file and returns their number, which is smaller only at the
// end of the file; -1, with errno set, if the system cannot read.
int64_t read_open_file(int fd, char* to, size_t size);

}  // namespace xrun
