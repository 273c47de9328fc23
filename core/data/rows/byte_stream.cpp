// Members of gzip and frames of zstd follow one another to the end of the file; a gzip file may be
// padded with zeros. Any other bytes are an error.

#include "core/data/rows/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/file.h"
#include "core/base/file_access.h"

namespace xrun {

namespace {

// Throws Error unless compressed data may begin with `beginning`. A file that ends inside the magic
// passes here and is reported as truncated later.
void check_magic(std::string_view beginning, std::string_view magic, const std::string& name) {
  // A shorter file is compared as far as it goes.
  if (beginning.substr(0, magic.size()) == magic.substr(0, beginning.size())) return;
  const bool gzip = beginning.starts_with(kGzipMagic);
  if (gzip || beginning.starts_with(kZstdMagic)) {
    throw Error(fmt::format("{}: is compressed with {}; rename it to {}{}", name,
                            gzip ? "gzip" : "zstd", content_name(name), gzip ? ".gz" : ".zst"));
  }
  throw Error(fmt::format(
      "{}: is not compressed, although its name says so; if it holds rows rename it to {}, "
      "else copy it again",
      name, content_name(name)));
}

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(std::unique_ptr<RawFile> file) : ByteStream(std::move(file)) {}
  // Uncompressed bytes pass through; the file counts and hashes them.
  size_t read(char* to, size_t size) override { return file_->read(to, size); }
  bool skip(uint64_t size) override {
    file_->skip(size);
    return true;
  }
};

// gzip (RFC 1952): members follow one another; only zeros may follow the last one, as tapes pad.
constexpr size_t kInputBytes = 1 << 17;
constexpr int kGzipWindow = 15 + 16;  // zlib's code for a gzip header with any window

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<RawFile> file)
      : ByteStream(std::move(file)), input_(kInputBytes) {
    XRUN_CHECK(::inflateInit2(&state_, kGzipWindow) == Z_OK, "{}: no memory to decompress it",
               file_->name());
  }
  ~GzipStream() override { ::inflateEnd(&state_); }

  size_t read(char* to, size_t size) override {
    size_t total = 0;
    while (total < size && begin_member()) {
      // zlib counts in 32 bits.
      const size_t most = std::min<size_t>(size - total, UINT32_MAX);
      state_.next_out = reinterpret_cast<Bytef*>(to + total);
      state_.avail_out = static_cast<uInt>(most);
      const int code = ::inflate(&state_, Z_NO_FLUSH);
      total += most - state_.avail_out;
      check(code);
      in_member_ = code != Z_STREAM_END;
    }
    return total;
  }

 private:
  // Returns false after the last member.
  bool begin_member() {
    if (state_.avail_in == 0) fill();
    if (in_member_) {
      XRUN_CHECK(state_.avail_in > 0,
                 "{}: is truncated: its {} bytes end inside the compressed data; copy it again",
                 file_->name(), file_->bytes());
      return true;
    }
    // Padding after a member.
    while (seen_member_ && state_.avail_in > 0 && *state_.next_in == 0) {
      ++state_.next_in;
      if (--state_.avail_in == 0) fill();
    }
    if (seen_member_ && state_.avail_in == 0) return false;
    // Only for the first member: wrong bytes after it are corruption, not a wrong name.
    if (!seen_member_) {
      check_magic({input_.data(), state_.avail_in}, kGzipMagic, file_->name());
    }
    ::inflateReset(&state_);
    in_member_ = seen_member_ = true;
    // Recurses once: the stream is inside the member now.
    return begin_member();
  }

  void fill() {
    state_.next_in = reinterpret_cast<Bytef*>(input_.data());
    state_.avail_in = static_cast<uInt>(file_->read(input_.data(), input_.size()));
  }

  // Takes every code that inflate() may return.
  void check(int code) const {
    // Z_BUF_ERROR asks for more input, which the next round reads.
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return;
    throw Error(fmt::format("{}: is corrupt near byte {}: {}; copy it again", file_->name(),
                            file_->bytes() - state_.avail_in,
                            state_.msg != nullptr ? state_.msg : "it is not gzip data"));
  }

  z_stream state_{};
  std::vector<char> input_;
  bool in_member_ = false, seen_member_ = false;
};

// zstd (RFC 8878): frames and skippable frames follow one another to the end of the file.
constexpr int kWindowLog = 27;  // 128 MiB, the limit of the zstd program without --long

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<RawFile> file)
      : ByteStream(std::move(file)), state_(ZSTD_createDCtx()), input_(ZSTD_DStreamInSize()) {
    XRUN_CHECK(state_ != nullptr, "{}: no memory to decompress it", file_->name());
    ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, kWindowLog);
  }

  size_t read(char* to, size_t size) override {
    ZSTD_outBuffer out = {to, size, 0};
    while (out.pos < size) {
      // An empty input marks the end of the file.
      if (in_.pos == in_.size) in_ = {input_.data(), file_->read(input_.data(), input_.size()), 0};
      // The first input holds all bytes that were read so far.
      if (file_->bytes() == in_.size && in_.pos == 0) check_beginning();
      if (in_.size == 0 && between_frames_) break;
      const size_t pos = out.pos;
      // 0: a frame has ended, and the file may end here.
      const size_t left = ZSTD_decompressStream(state_.get(), &out, &in_);
      XRUN_CHECK(!ZSTD_isError(left), "{}: is corrupt near byte {}: {}; copy it again",
                 file_->name(), file_->bytes() - in_.size + in_.pos, ZSTD_getErrorName(left));
      XRUN_CHECK(in_.size > 0 || out.pos > pos,
                 "{}: is truncated: its {} bytes end inside the compressed data; copy it again",
                 file_->name(), file_->bytes());
      between_frames_ = left == 0;
    }
    return out.pos;
  }

 private:
  void check_beginning() const {
    const std::string_view bytes(input_.data(), in_.size);
    // Skippable frames begin with 0x184D2A50 to 0x184D2A5F, little endian.
    const bool skippable = bytes.size() > 3 && (bytes[0] & 0xF0) == 0x50 &&
                           bytes.substr(1, 3) == std::string_view("\x2A\x4D\x18");
    if (!skippable) check_magic(bytes, kZstdMagic, file_->name());
  }

  struct FreeState {
    void operator()(ZSTD_DCtx* state) const { ZSTD_freeDCtx(state); }
  };
  std::unique_ptr<ZSTD_DCtx, FreeState> state_;
  std::vector<char> input_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  bool between_frames_ = false;  // false at first: a file without a frame is not a zstd file
};

}  // namespace

RawFile::RawFile(const std::string& path, std::string name) : name_(std::move(name)) {
  check_read(path);
  // A pipe would block until somebody writes to it.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail("opened");
  struct stat info {};
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular) ::close(fd_);
  XRUN_CHECK(regular, "{}: is not a regular file", name_);
}

RawFile::~RawFile() { ::close(fd_); }

// Reports errno, so nothing may be called between the failure and this.
void RawFile::fail(const char* what) const {
  const int code = errno;
  throw FileError(code, fmt::format("{}: cannot be {}: {}", name_, what, std::strerror(code)));
}

size_t RawFile::read(char* to, size_t size) {
  const int64_t n = read_open_file(fd_, to, size);
  if (n < 0) fail("read");
  const size_t total = static_cast<size_t>(n);
  // The hash is of the file as stored, so compressed data are not decompressed to compare them.
  hasher_.bytes({to, total});
  bytes_ += total;
  return total;
}

void RawFile::skip(uint64_t size) {
  // The bytes passed over are not hashed: only a reader that verified them before skips them.
  if (::lseek(fd_, static_cast<off_t>(size), SEEK_CUR) < 0) fail("read");
}

std::string content_name(const std::string& path) {
  for (const std::string ending : {".gz", ".zst"}) {
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

// The name alone decides; the contents are checked against it when they are read.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const std::string& name) {
  auto file = std::make_unique<RawFile>(path, name);
  if (path.ends_with(".gz")) return std::make_unique<GzipStream>(std::move(file));
  if (path.ends_with(".zst")) return std::make_unique<ZstdStream>(std::move(file));
  return std::make_unique<PlainStream>(std::move(file));
}

}  // namespace xrun
