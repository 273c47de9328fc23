// pwrite at explicit offsets: processes that write disjoint ranges need no lock.

#include "core/base/file_update.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/file_fault.h"

namespace xrun {

FileUpdate::FileUpdate(const std::filesystem::path& path) : path_(path) {
  check_write(path);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) throw_file_error(path, "be opened for writing");
}

FileUpdate::~FileUpdate() {
  if (fd_ >= 0) ::close(fd_);
}

void FileUpdate::write(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    if (injected_fault("write")) throw_file_error(path_, "be written");
    const ssize_t n =
        ::pwrite(fd_, bytes.data(), std::min<uint64_t>(bytes.size(), FileWriter::kWriteBytes),
                 static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_file_error(path_, "be written");
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void FileUpdate::sync() {
  if (injected_fault("fsync") || ::fsync(fd_) != 0) throw_file_error(path_, "be synced");
}

void FileUpdate::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0) throw_file_error(path_, "be closed");
}

}  // namespace xrun
