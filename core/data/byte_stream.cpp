#include "core/data/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace xrun {

namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(std::unique_ptr<RawFile> file) : ByteStream(std::move(file)) {}
  size_t read(char* to, size_t size) override { return file_->read(to, size); }
};

}  // namespace

RawFile::RawFile(const std::string& path, std::string name) : name_(std::move(name)) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  XRUN_CHECK(fd_ >= 0, "{}: cannot be opened: {}", name_, std::strerror(errno));
  struct stat info {};
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular) ::close(fd_);
  XRUN_CHECK(regular, "{}: is not a regular file", name_);
}

RawFile::~RawFile() { ::close(fd_); }

size_t RawFile::read(char* to, size_t size) {
  size_t total = 0;
  while (total < size) {
    const ssize_t n = ::read(fd_, to + total, size - total);
    if (n < 0 && errno == EINTR) continue;
    XRUN_CHECK(n >= 0, "{}: cannot be read: {}", name_, std::strerror(errno));
    if (n == 0) break;
    total += static_cast<size_t>(n);
  }
  hasher_.bytes({to, total});
  bytes_ += total;
  return total;
}

std::string content_name(const std::string& path) {
  for (const std::string ending : {".gz", ".zst"}) {
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const std::string& name) {
  auto file = std::make_unique<RawFile>(path, name);
  if (path.ends_with(".gz")) return decode_gzip(std::move(file));
  if (path.ends_with(".zst")) return decode_zstd(std::move(file));
  return std::make_unique<PlainStream>(std::move(file));
}

}  // namespace xrun
