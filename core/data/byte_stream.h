#pragma once
// The content of a data file as a stream of bytes: decompressed where its name says so.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/hash.h"

namespace xrun {

// A file's own bytes in order, hashed as they are read. Not thread-safe.
class RawFile {
 public:
  // Throws Error that begins with `name` if it cannot be opened or is no regular file.
  RawFile(const std::string& path, std::string name);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  // Reads up to `size` bytes; fewer at the end of the file alone.
  size_t read(char* to, size_t size);
  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }             // read so far
  std::string digest() const { return hasher_.hex(); }  // of these

 private:
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
  // Reads up to `size` bytes of content; fewer at its end alone. Throws Error that names the file
  // and the byte of the file for compressed data that is corrupt or cut short.
  virtual size_t read(char* to, size_t size) = 0;
  const RawFile& file() const { return *file_; }

 protected:
  explicit ByteStream(std::unique_ptr<RawFile> file) : file_(std::move(file)) {}
  std::unique_ptr<RawFile> file_;
};

// Opens "rows.jsonl", "rows.jsonl.gz" (gzip, any number of members) or "rows.jsonl.zst" (zstd, any
// number of frames). `name` is what errors call it.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const std::string& name);

// The content's own kind of name: without ".gz" or ".zst".
std::string content_name(const std::string& path);

// The decoders of open_byte_stream.
std::unique_ptr<ByteStream> decode_gzip(std::unique_ptr<RawFile> file);
std::unique_ptr<ByteStream> decode_zstd(std::unique_ptr<RawFile> file);

}  // namespace xrun
