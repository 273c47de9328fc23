#pragma once
// Splits a data file into blocks of whole rows without parsing them.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/hash.h"
#include "core/data/rows/byte_stream.h"
#include "core/data/rows/row.h"

namespace xrun {

// A position in the (decompressed) content of a file, after a row.
struct ContentCursor {
  uint64_t offset = 0;  // bytes before it
  int64_t lines = 0;    // line ends before it
  int64_t rows = 0;     // rows before it
  uint64_t column = 0;  // bytes since the last line end
};

// A piece of the content that holds whole rows. Filling a block again reuses its memory.
struct RowBlock {
  struct RowExtent {
    size_t begin = 0, end = 0;  // of the row's text in content
    int64_t line = 0;           // on which the row begins, from 1
    uint64_t column = 0;        // bytes of that line before the row
    ContentCursor after;
  };
  // The content from `from` to `after`, padded with zeros that parsers may read.
  static constexpr size_t kPadding = 64;
  std::string content;
  ContentCursor from, after;
  std::vector<RowExtent> rows;

  size_t bytes() const { return after.offset - from.offset; }
  std::string_view text(size_t row) const {
    return std::string_view(content).substr(rows[row].begin, rows[row].end - rows[row].begin);
  }
};

// Reads a file's rows in order; memory is bounded by the block and the longest row (at most 1 GiB).
// Bad JSON is not an error here as long as the ends of rows are known. Not thread-safe.
class RowSplitter {
 public:
  // The name decides: .jsonl (one row per line, blank lines ignored), .json (an array of rows) or
  // .txt (rows separated by blank lines), each also .gz or .zst. Rows begin after `from`. kHash
  // reads the content before it, for take_prefix(); kSkip reads it only if it is compressed, and
  // take_prefix() and file() are then meaningless. Throws Error that begins with `name` if the file
  // cannot be read or ends before `from`.
  enum class Prefix { kHash, kSkip };
  static std::unique_ptr<RowSplitter> open(const std::string& path, const std::string& name,
                                           const ContentCursor& from = {},
                                           Prefix prefix = Prefix::kHash);
  virtual ~RowSplitter() = default;

  virtual RowForm form() const { return RowForm::kJson; }
  // Fills `block` with the next rows, about `target` bytes; returns false at the end. For UTF-16,
  // for a row above 1 GiB and for rows that cannot be told apart, first returns all rows before
  // that point and then throws Error "name:line: ...".
  bool next(RowBlock& block, size_t target = size_t{1} << 20);

  const RawFile& file() const { return stream_->file(); }  // as far as it was read
  // Returns the hash of the content before `from`. Call it once.
  Hasher take_prefix() { return std::move(prefix_); }

 protected:
  RowSplitter() = default;
  // Finds the rows in `content`, the bytes after cursor_, appends them to `rows` and moves cursor_
  // past them: past everything at the end of the file, else past every row whose end is certain.
  // Called again with more bytes if cursor_ did not move.
  virtual void split(std::string_view content, bool at_end,
                     std::vector<RowBlock::RowExtent>& rows) = 0;
  // Appends the row content[begin, end) and moves cursor_ from content[at] to content[after].
  // Returns after.
  size_t add_row(std::string_view content, size_t at, size_t begin, size_t end, size_t after,
                 std::vector<RowBlock::RowExtent>& rows);
  // Moves cursor_ from content[at] to content[after]. Returns after.
  size_t skip(std::string_view content, size_t at, size_t after);
  const std::string& name() const { return name_; }

  ContentCursor cursor_;

 private:
  void read_prefix(uint64_t bytes);
  bool read_block(RowBlock& block, size_t target);
  void split_block(RowBlock& block);
  void check_beginning(std::string_view content) const;

  std::string name_;
  std::unique_ptr<ByteStream> stream_;
  Hasher prefix_;
  std::string carry_;  // content read but not yet in a block
  bool at_end_ = false;
  std::exception_ptr fault_;  // found after rows that are returned first
};

}  // namespace xrun
