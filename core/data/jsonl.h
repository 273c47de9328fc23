#pragma once
// JSON Lines: one JSON value a line, read as a stream.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/hash.h"
#include "core/data/row_type.h"

namespace xrun {

// A place in a file from which reading can go on.
struct JsonlCursor {
  uint64_t offset = 0;  // bytes before it
  int64_t lines = 0;    // lines before it
};

// Reads a file's lines in order; memory is bounded by the longest line (at most 1 GiB). Lines end
// with LF or CRLF; a byte order mark is skipped; blank lines count as lines but are not returned.
class JsonlReader {
 public:
  // Reads the bytes before `from` for the digest alone. Throws Error that names the file if it
  // cannot be opened, is no regular file or ends before `from`.
  JsonlReader(const std::string& path, const std::string& name, JsonlCursor from = {});
  ~JsonlReader();
  JsonlReader(const JsonlReader&) = delete;
  JsonlReader& operator=(const JsonlReader&) = delete;

  // Returns false at the end of the file. The text is valid until the next call; its file is not
  // set.
  bool next_row(RawRow& out);
  // The place behind the last line returned; behind the last line of all at the end.
  const JsonlCursor& cursor() const { return cursor_; }
  // The digest of all bytes before cursor(), as they were when they were read.
  std::string digest() const { return read_.hex(); }

 private:
  void read_prefix(uint64_t bytes);
  size_t read_piece(char* to, size_t size);  // 0 at the end of the file
  bool next_line(std::string_view& line);
  bool fill();  // reads more; false at the end of the file

  std::string name_;
  int fd_ = -1;
  JsonlCursor cursor_;
  Hasher read_;
  std::string buffer_;
  size_t begin_ = 0;    // of what is not yet returned, in buffer_
  size_t scanned_ = 0;  // up to here buffer_ holds no line end
};

}  // namespace xrun
