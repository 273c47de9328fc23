// Bytes go to a temporary name and to the disk first, then the file is renamed and its folder
// synced: a name holds all of the old bytes or all of the new ones.

#include "core/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/file_access.h"
#include "core/base/file_update.h"
#include "core/base/folder.h"
#include "core/base/open_file.h"

namespace xrun {

namespace {

constexpr uint64_t kBufferBytes = 1 << 20;
// Bytes per write. The page cache holds a new file in pieces as large as its writes and maps whole
// pieces: 32 scattered rows of a mapped cache took 226 MB of memory with writes of 1 MiB, 38 MB
// with these.
constexpr uint64_t kWriteBytes = 1 << 16;
constexpr uint64_t kFirstReadBytes = 64 << 20;  // a stated size that is not true costs no more
constexpr auto kLockPoll = std::chrono::milliseconds(50);

// Fault injection of tests, XRUN_FILE_FAULT=OPERATION:N or set_file_fault: the N-th call of the
// operation and every later one fail. A value of another form injects nothing.
struct FileFault {
  std::string operation;
  int64_t nth = 0;
  std::atomic<int64_t> seen = 0;

  FileFault() {
    const char* text = std::getenv("XRUN_FILE_FAULT");
    if (text == nullptr) return;
    const std::string_view view(text);
    const size_t colon = view.find(':');
    if (colon == std::string_view::npos) return;
    operation = view.substr(0, colon);
    std::from_chars(view.data() + colon + 1, view.data() + view.size(), nth);
  }
};

FileFault& file_fault() {
  static FileFault fault;
  return fault;
}

// Returns true if the operation must fail, with errno set to `code`.
bool fails_here(const char* operation, int code = ENOSPC) {
  FileFault& fault = file_fault();
  if (fault.nth == 0 || fault.operation != operation) return false;
  // The later ones fail too: a full disk stays full.
  if (++fault.seen < fault.nth) return false;
  errno = code;
  return true;
}

bool is_in_cache(const std::filesystem::path& path) {
  try {
    return path.string().starts_with(cache_root().string() + "/");
  } catch (const Error&) {
    return false;  // no variable names a cache
  }
}

// Reads errno, so it must be the first call after the failure.
[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  const int code = errno;
  std::string hint = code == ENOSPC ? "; free some space" : "";
  // A recipe that is not trusted is not told where it is.
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

}  // namespace

// Without waiting: only a signal would end the open of a pipe that nobody writes to.
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

void set_file_fault(std::string_view operation, int64_t nth) {
  FileFault& fault = file_fault();
  fault.operation = operation;
  fault.nth = nth;
  fault.seen = 0;
}

bool path_exists(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return true;
  // A folder that may not be entered hides its files; it does not prove that they are absent.
  if (errno != ENOENT && errno != ENOTDIR) fail(path, "be examined");
  return false;
}

int64_t read_open_file(int fd, char* to, size_t size) {
  if (fails_here("read", EIO)) return -1;
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

// Its few lines would otherwise fail much later, as a model or a data set without sense.
void refuse_lfs_pointer(std::string_view bytes, const std::string& path) {
  XRUN_CHECK(!bytes.starts_with("version https://git-lfs"),
             "{}: is a Git LFS pointer, not the file itself; fetch it with git lfs pull", path);
}

// False for whatever cannot be examined: a question, not a check.
bool is_file(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::is_regular_file(path, code);
}

std::string read_file(const std::filesystem::path& path, uint64_t max_bytes) {
  const int fd = open_to_read(path);
  if (fd < 0) fail(path, "be opened");
  // One byte more than the file has shows its end. A string zeroes what it grows by, so a small
  // file does not begin with a large buffer.
  struct stat status {};
  const bool sized = ::fstat(fd, &status) == 0 && status.st_size > 0;
  const auto asked = sized ? static_cast<uint64_t>(status.st_size) + 1 : kWriteBytes;
  std::string bytes(std::min(asked, kFirstReadBytes), '\0');
  uint64_t size = 0;
  // Read to the end rather than to the size that stat gives: a pipe and /proc have none.
  while (true) {
    if (bytes.size() == size) bytes.resize(bytes.size() * 2);
    const ssize_t n = ::read(fd, bytes.data() + size, bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      ::close(fd);
      fail(path, "be read");
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

namespace {

// An error names `what`: the user may not know the folder of a file that is named without one.
void sync_folder(const std::filesystem::path& dir, const std::filesystem::path& what) {
  const int fd = ::open(dir.empty() ? "." : dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(dir, "be opened");
  const bool failed = fails_here("fsync") || ::fsync(fd) != 0;
  const int code = errno;
  // close() may change errno, which fail() reports.
  ::close(fd);
  errno = code;
  if (failed) fail(what, "be synced");
}

}  // namespace

// A rename or a new file is durable only once its folder is on the disk.
void sync_dir(const std::filesystem::path& dir) { sync_folder(dir, dir); }

void rename_durable(const std::filesystem::path& from, const std::filesystem::path& to) {
  check_write(from);
  check_write(to);
  if (fails_here("rename") || ::rename(from.c_str(), to.c_str()) != 0) {
    fail(to, "be renamed into place");
  }
  // The new name is an entry of the folder and survives a power cut only with it.
  sync_folder(to.parent_path(), to);
}

void make_dirs(const std::filesystem::path& dir) {
  std::error_code code;
  if (std::filesystem::is_directory(dir, code)) return;
  check_write(dir);
  std::filesystem::create_directories(dir, code);
  XRUN_CHECK(!code, "{}: the folder cannot be created: {}", dir.string(), code.message());
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
    const std::string text = error.what(), own = temporary.string();
    // The user knows the file by its own name, not by the temporary one.
    if (!text.starts_with(own)) throw;
    throw FileError(error.code(), path.string() + text.substr(own.size()));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

// Modes for a whole new file and for a log that grows.
FileWriter::FileWriter(const std::filesystem::path& path, Mode mode) : path_(path) {
  check_write(path);
  buffer_.reserve(kBufferBytes);  // before there is a descriptor that nobody would close
  const int flags = mode == Mode::kTruncate ? O_TRUNC : O_APPEND;
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd_ < 0) fail(path, "be opened for writing");
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
    write_through(bytes.data(), bytes.size());
  } else {
    buffer_.append(bytes);
  }
}

void FileWriter::write_through(const char* data, uint64_t size) {
  while (size > 0) {
    if (fails_here("write")) fail(path_, "be written");
    // write may take fewer bytes than asked, so the rest is offered again.
    const ssize_t n = ::write(fd_, data, std::min(size, kWriteBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "be written");
    data += n;
    size -= static_cast<uint64_t>(n);
  }
}

// Hands the bytes to the kernel; only sync() makes them durable.
void FileWriter::flush() {
  if (buffer_.empty()) return;
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::sync() {
  flush();
  if (fails_here("fsync") || ::fsync(fd_) != 0) fail(path_, "be synced");
}

void FileWriter::close() {
  flush();
  // The descriptor is gone even if close fails; the destructor must not close it again.
  const int fd = std::exchange(fd_, -1);
  // Network file systems may report a failed write only here.
  if (fd >= 0 && ::close(fd) != 0) fail(path_, "be closed");
}

FileUpdate::FileUpdate(const std::filesystem::path& path) : path_(path) {
  check_write(path);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) fail(path, "be opened for writing");
}

FileUpdate::~FileUpdate() {
  if (fd_ >= 0) ::close(fd_);
}

void FileUpdate::write(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    if (fails_here("write")) fail(path_, "be written");
    const ssize_t n = ::pwrite(fd_, bytes.data(), std::min<uint64_t>(bytes.size(), kWriteBytes),
                               static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "be written");
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void FileUpdate::sync() {
  if (fails_here("fsync") || ::fsync(fd_) != 0) fail(path_, "be synced");
}

void FileUpdate::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0) fail(path_, "be closed");
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  check_read(path);
  // A pipe would block until somebody writes to it.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(path, "be opened");
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw Error(fmt::format("{}: is not a regular file", path.string()));
  }
  size_ = static_cast<uint64_t>(info.st_size);
  void* address = nullptr;
  // mmap refuses 0 bytes. The map outlives its descriptor.
  if (size_ > 0) address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int code = errno;
  ::close(fd);
  errno = code;
  if (address == MAP_FAILED) fail(path, "be mapped");
  data_ = static_cast<const char*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

// Clean pages of a file are dropped and read again at the next access; the map stays valid.
void MappedFile::forget() const {
  if (data_ != nullptr) ::madvise(const_cast<char*>(data_), size_, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  // The other one unmaps the memory that this one had.
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

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
  if (fd_ < 0) fail(path, "be opened for a lock");
  int result = 0;
  do {
    // flock belongs to the open file and not to the process: it also excludes other threads, and
    // closing the descriptor releases it.
    result = ::flock(fd_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EWOULDBLOCK) fail(path, "be locked");
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

}  // namespace xrun
