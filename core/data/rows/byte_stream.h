#pragma once
// The content of a data file as a stream of bytes, decompressed if its name ends with .gz or .zst.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/hash.h"

namespace xrun {

// The bytes of a file in order, hashed as they are read. Not thread-safe.
class RawFile {
 public:
  // Throws, with `name` first in the message,
  //   FileError  the file cannot be opened
  //   Error      it is not a regular file
  RawFile(const std::string& path, std::string name);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  // Reads `size` bytes, fewer only at the end of the file. Throws FileError.
  size_t read(char* to, size_t size);
  // Skips the next `size` bytes, which are neither read nor hashed. Throws FileError.
  void skip(uint64_t size);
  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }             // read so far
  std::string digest() const { return hasher_.hex(); }  // of these bytes

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string name_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  Hasher hasher_;
};

// The decompressed content of a file. Memory is bounded whatever the file contains: it is
// decompressed in pieces, and a .zst file with a window above 128 MiB is refused. Not thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads `size` bytes of content, fewer only at its end. Throws
  //   FileError  the system cannot read the file
  //   Error      the compressed data are corrupt or truncated; names the file and the byte
  virtual size_t read(char* to, size_t size) = 0;
  // Skips the next `size` bytes of content if that needs no reading; otherwise does nothing and
  // returns false. Throws FileError.
  virtual bool skip(uint64_t size) {
    static_cast<void>(size);
    return false;
  }
  const RawFile& file() const { return *file_; }

 protected:
  explicit ByteStream(std::unique_ptr<RawFile> file) : file_(std::move(file)) {}
  std::unique_ptr<RawFile> file_;
};

// Opens "rows.jsonl", "rows.jsonl.gz" (gzip, any number of members) or "rows.jsonl.zst" (zstd, any
// number of frames). Errors call the file `name`.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const std::string& name);

constexpr std::string_view kGzipMagic = "\x1F\x8B";
constexpr std::string_view kZstdMagic = "\x28\xB5\x2F\xFD";

// Returns the path without ".gz" or ".zst".
std::string content_name(const std::string& path);

}  // namespace xrun
