#pragma once
// The content of a data file as a stream of bytes: decompressed where its name says so.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/hash.h"

namespace xrun {

// A file's own bytes in order, hashed as they are read. Not thread-safe.
class RawFile {
 public:
  // Throws FileError that begins with `name` if it cannot be opened, Error if it is no regular
  // file.
  RawFile(const std::string& path, std::string name);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  // Reads up to `size` bytes; fewer at the end of the file alone. Throws FileError.
  size_t read(char* to, size_t size);
  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }             // read so far
  std::string digest() const { return hasher_.hex(); }  // of these

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string name_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  Hasher hasher_;
};

// Memory is bounded whatever the file says: decompression goes piece by piece, and a .zst file
// whose window is beyond 128 MiB is refused. Not thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads up to `size` bytes of content; fewer at its end alone. Throws FileError if the system
  // cannot read, Error that names the file and the byte of the file for compressed data that is
  // corrupt or cut short.
  virtual size_t read(char* to, size_t size) = 0;
  const RawFile& file() const { return *file_; }

 protected:
  explicit ByteStream(std::unique_ptr<RawFile> file) : file_(std::move(file)) {}
  std::unique_ptr<RawFile> file_;
};

// Opens "rows.jsonl", "rows.jsonl.gz" (gzip, any number of members) or "rows.jsonl.zst" (zstd, any
// number of frames). `name` is what errors call it.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const std::string& name);

constexpr std::string_view kGzipMagic = "\x1F\x8B";
constexpr std::string_view kZstdMagic = "\x28\xB5\x2F\xFD";

// The content's own kind of name: without ".gz" or ".zst".
std::string content_name(const std::string& path);

// Throws Error with the way out unless compressed data may begin so. `magics` are the beginnings of
// its kind; fewer bytes than one of them has are no fault, the file is cut short then.
void check_magic(std::string_view beginning, std::initializer_list<std::string_view> magics,
                 const std::string& name);

// The decoders of open_byte_stream.
std::unique_ptr<ByteStream> decode_gzip(std::unique_ptr<RawFile> file);
std::unique_ptr<ByteStream> decode_zstd(std::unique_ptr<RawFile> file);

}  // namespace xrun
