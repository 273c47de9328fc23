#include "core/data/rows/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/file.h"

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
  if (fd_ < 0) fail("opened");
  struct stat info {};
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular) ::close(fd_);
  XRUN_CHECK(regular, "{}: is not a regular file", name_);
}

RawFile::~RawFile() { ::close(fd_); }

void RawFile::fail(const char* what) const {
  const int code = errno;
  throw FileError(code, fmt::format("{}: cannot be {}: {}", name_, what, std::strerror(code)));
}

size_t RawFile::read(char* to, size_t size) {
  const int64_t n = read_open_file(fd_, to, size);
  if (n < 0) fail("read");
  const size_t total = static_cast<size_t>(n);
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

void check_magic(std::string_view beginning, std::initializer_list<std::string_view> magics,
                 const std::string& name) {
  for (const std::string_view magic : magics) {
    if (beginning.substr(0, magic.size()) == magic.substr(0, beginning.size())) return;
  }
  const bool gzip = beginning.starts_with(kGzipMagic);
  if (gzip || beginning.starts_with(kZstdMagic)) {
    throw Error(fmt::format("{}: is compressed by {}; rename it to {}{}", name,
                            gzip ? "gzip" : "zstd", content_name(name), gzip ? ".gz" : ".zst"));
  }
  throw Error(
      fmt::format("{}: is not compressed, though it is named so; if it holds rows rename it "
                  "to {}, else bring it here again",
                  name, content_name(name)));
}

std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const std::string& name) {
  auto file = std::make_unique<RawFile>(path, name);
  if (path.ends_with(".gz")) return decode_gzip(std::move(file));
  if (path.ends_with(".zst")) return decode_zstd(std::move(file));
  return std::make_unique<PlainStream>(std::move(file));
}

}  // namespace xrun
