// Bytes go to a temporary name and to the disk first, then the file is renamed and its folder
// synced: a name holds all of the old bytes or all of the new ones.

#include "core/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/file_access.h"
#include "core/base/file_fault.h"
#include "core/base/folder.h"

namespace xrun {

namespace {

constexpr uint64_t kBufferBytes = 1 << 20;
constexpr uint64_t kFirstReadBytes = 64 << 20;  // bounds the cost of a wrong st_size

bool is_in_cache(const std::filesystem::path& path) {
  try {
    return path.string().starts_with(cache_root().string() + "/");
  } catch (const Error&) {
    return false;  // no variable names a cache
  }
}

}  // namespace

void throw_file_error(const std::filesystem::path& path, const char* what) {
  const int code = errno;
  std::string hint = code == ENOSPC ? "; free some space" : "";
  // An untrusted recipe must not learn the path of the current folder.
  if (code == ENOENT && path.is_relative() && !file_access_limited()) {
    std::error_code removed;
    hint =
        fmt::format("; the current folder is {}", std::filesystem::current_path(removed).string());
  }
  if ((code == EROFS || code == EACCES) && is_in_cache(path)) {
    hint = "; xrun writes to its cache: set XRUN_CACHE to a folder that can be written";
  }
  throw FileError(
      code, fmt::format("{}: cannot {}: {}{}", path.string(), what, std::strerror(code), hint));
}

// O_NONBLOCK, since opening a pipe that nobody writes to would block until a signal.
int open_to_read(const std::filesystem::path& path) {
  check_read(path);
  const bool limited = file_access_limited();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (limited ? O_NONBLOCK : 0));
  if (fd < 0 || !limited) return fd;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))) return fd;
  ::close(fd);
  throw Error(fmt::format("{}: is not a regular file", path.string()));
}

bool path_exists(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return true;
  // A folder that may not be entered hides its files; it does not prove that they are absent.
  if (errno != ENOENT && errno != ENOTDIR) throw_file_error(path, "be examined");
  return false;
}

int64_t read_open_file(int fd, char* to, size_t size) {
  if (injected_fault("read", EIO)) return -1;
  size_t total = 0;
  while (total < size) {
    // One read may stop short: at a signal, and at 2 GiB on Linux.
    const ssize_t n = ::read(fd, to + total, size - total);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    total += static_cast<size_t>(n);
  }
  return static_cast<int64_t>(total);
}

// A pointer is a small text file: it would fail much later, as a model or data set of nonsense.
void refuse_lfs_pointer(std::string_view bytes, const std::string& path) {
  XRUN_CHECK(!bytes.starts_with("version https://git-lfs"),
             "{}: is a Git LFS pointer, not the file itself; fetch it with git lfs pull", path);
}

bool is_file(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::is_regular_file(path, code);
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::is_directory(path, code);
}

uint64_t size_of_file(const std::filesystem::path& path) {
  std::error_code code;
  const uint64_t bytes = std::filesystem::file_size(path, code);
  if (!code) return bytes;
  errno = code.value();
  throw_file_error(path, "be examined");
}

std::string read_file(const std::filesystem::path& path, uint64_t max_bytes) {
  const int fd = open_to_read(path);
  if (fd < 0) throw_file_error(path, "be opened");
  // One byte more than the file has shows its end. A string zeroes what it grows by, so a small
  // file does not begin with a large buffer.
  struct stat status {};
  const bool sized = ::fstat(fd, &status) == 0 && status.st_size > 0;
  const auto asked = sized ? static_cast<uint64_t>(status.st_size) + 1 : FileWriter::kWriteBytes;
  std::string bytes(std::min(asked, kFirstReadBytes), '\0');
  uint64_t size = 0;
  // Read to the end rather than to the size that stat gives: a pipe and /proc have none.
  while (true) {
    if (bytes.size() == size) bytes.resize(bytes.size() * 2);
    const ssize_t n = ::read(fd, bytes.data() + size, bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      ::close(fd);
      throw_file_error(path, "be read");
    }
    if (n == 0) break;
    size += static_cast<uint64_t>(n);
    if (size > max_bytes) {
      ::close(fd);
      throw Error(
          fmt::format("{}: is larger than the limit of {} bytes", path.string(), max_bytes));
    }
  }
  ::close(fd);
  bytes.resize(size);
  refuse_lfs_pointer(bytes, path.string());
  return bytes;
}

void read_file_pieces(const std::filesystem::path& path,
                      const std::function<void(std::string_view piece, uint64_t total)>& each) {
  const int fd = open_to_read(path);
  // Closed even if `each` throws.
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fd < 0 ? nullptr : ::fdopen(fd, "rb"),
                                                       &std::fclose);
  XRUN_CHECK(file, "{}: cannot be read: {}", path.string(), std::strerror(errno));
  std::string buffer(1 << 20, '\0');
  uint64_t total = 0;
  // A pipe or a shorter file gives a short read; 0 is the end or an error, told apart below.
  while (size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    total += n;
    each({buffer.data(), n}, total);
  }
  XRUN_CHECK(!std::ferror(file.get()), "{}: cannot be read: {}", path.string(),
             std::strerror(errno));
}

namespace {

// An error of fsync names `what`, since a file named without a folder has an empty `dir`.
void sync_folder(const std::filesystem::path& dir, const std::filesystem::path& what) {
  const std::filesystem::path folder = dir.empty() ? "." : dir;
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_file_error(folder, "be opened");
  const bool failed = injected_fault("fsync") || ::fsync(fd) != 0;
  const int code = errno;
  // close() may change errno, which throw_file_error() reports.
  ::close(fd);
  errno = code;
  if (failed) throw_file_error(what, "be synced");
}

}  // namespace

// A rename or a new file is durable only once its folder is on the disk.
void sync_dir(const std::filesystem::path& dir) { sync_folder(dir, dir); }

void rename_durable(const std::filesystem::path& from, const std::filesystem::path& to) {
  check_write(from);
  check_write(to);
  if (injected_fault("rename") || ::rename(from.c_str(), to.c_str()) != 0) {
    throw_file_error(to, "be renamed into place");
  }
  // The new name is an entry of the folder and survives a power cut only with it.
  sync_folder(to.parent_path(), to);
}

void set_file_size(const std::filesystem::path& path, uint64_t bytes) {
  check_write(path);
  std::error_code code;
  std::filesystem::resize_file(path, bytes, code);
  if (!code) return;
  errno = code.value();
  throw_file_error(path, "be resized");
}

void remove_tree(const std::filesystem::path& path) {
  check_write(path);
  std::error_code code;
  std::filesystem::remove_all(path, code);
  if (!code) return;
  errno = code.value();
  throw_file_error(path, "be removed");
}

void make_dirs(const std::filesystem::path& dir) {
  std::error_code code;
  if (std::filesystem::is_directory(dir, code)) return;
  check_write(dir);
  std::filesystem::create_directories(dir, code);
  XRUN_CHECK(!code, "{}: the folder cannot be created: {}", dir.string(), code.message());
}

void throw_named(const FileError& error, const std::filesystem::path& temporary,
                 const std::filesystem::path& path) {
  const std::string text = error.what(), own = temporary.string();
  if (!text.starts_with(own)) throw error;
  throw FileError(error.code(), path.string() + text.substr(own.size()));
}

void write_file_atomic(const std::filesystem::path& path, std::string_view bytes) {
  // The process id keeps two writers of one path apart. The same folder: a rename is atomic only
  // within one file system.
  const std::filesystem::path temporary = path.string() + fmt::format(".tmp{}", ::getpid());
  try {
    FileWriter writer(temporary);
    writer.write(bytes);
    writer.sync();
    writer.close();
    rename_durable(temporary, path);
  } catch (const FileError& error) {
    ::unlink(temporary.c_str());
    throw_named(error, temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

FileWriter::FileWriter(const std::filesystem::path& path, Mode mode) : path_(path) {
  check_write(path);
  buffer_.reserve(kBufferBytes);  // before there is a descriptor that nobody would close
  const int flags = mode == Mode::kTruncate ? O_TRUNC : O_APPEND;
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd_ < 0) throw_file_error(path, "be opened for writing");
}

// Without a flush: a writer that an exception abandons must not write the rest of a file that
// nobody will use.
FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, uint64_t size) {
  write(std::string_view(static_cast<const char*>(data), size));
}

void FileWriter::write(std::string_view bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    buffer_.append(bytes);
    return;
  }
  flush();
  // A large piece bypasses the buffer: a copy would gain nothing.
  if (bytes.size() >= kBufferBytes) {
    write_through(bytes);
  } else {
    buffer_.append(bytes);
  }
}

// Removes from `bytes` those that the system has taken, also if it throws.
void FileWriter::write_through(std::string_view& bytes) {
  while (!bytes.empty()) {
    if (injected_fault("write")) throw_file_error(path_, "be written");
    // write may take fewer bytes than asked, so the rest is offered again.
    const ssize_t n = ::write(fd_, bytes.data(), std::min<uint64_t>(bytes.size(), kWriteBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_file_error(path_, "be written");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

// Hands the bytes to the kernel; only sync() makes them durable.
void FileWriter::flush() {
  std::string_view left = buffer_;
  try {
    write_through(left);
  } catch (...) {
    // A log continues once its disk has space again; it must not repeat bytes that are in the file.
    buffer_.erase(0, buffer_.size() - left.size());
    throw;
  }
  buffer_.clear();
}

void FileWriter::sync() {
  flush();
  if (injected_fault("fsync") || ::fsync(fd_) != 0) throw_file_error(path_, "be synced");
}

void FileWriter::close() {
  flush();
  // The descriptor is gone even if close fails; the destructor must not close it again.
  const int fd = std::exchange(fd_, -1);
  // Network file systems may report a failed write only here.
  if (fd >= 0 && ::close(fd) != 0) throw_file_error(path_, "be closed");
}

}  // namespace xrun
