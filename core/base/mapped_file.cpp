// A private read-only mmap of a regular file; the map outlives its descriptor.

#include "core/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"

namespace xrun {

MappedFile::MappedFile(const std::filesystem::path& path) {
  check_read(path);
  // A pipe would block until somebody writes to it.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw_file_error(path, "be opened");
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw Error(fmt::format("{}: is not a regular file", path.string()));
  }
  size_ = static_cast<uint64_t>(info.st_size);
  void* address = nullptr;
  // mmap refuses 0 bytes.
  if (size_ > 0) address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int code = errno;
  ::close(fd);
  errno = code;
  if (address == MAP_FAILED) throw_file_error(path, "be mapped");
  data_ = static_cast<const char*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

// The system drops the pages and reads them again at the next access; the map stays valid.
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

}  // namespace xrun
