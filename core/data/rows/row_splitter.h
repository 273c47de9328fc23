#pragma once
// A data file as blocks of whole rows, split without parsing them.

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
  uint64_t column = 0;  // bytes between the last line end and it
};

// A piece of the content with whole rows. A block that is filled again keeps its memory.
struct RowBlock {
  struct RowExtent {
    size_t begin = 0, end = 0;  // of its text in content
    int64_t line = 0;           // where it begins, from 1
    uint64_t column = 0;        // bytes of that line before it
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
  // Chooses by the name: .jsonl (one row per line, blank lines ignored), .json (an array of rows),
  // .txt (rows separated by blank lines), each also .gz or .zst. The content before `from` is read
  // only for take_prefix(); under kSkip it is not read at all unless it is compressed, and
  // take_prefix() and file() mean nothing. Throws Error that begins with `name` if the file cannot
  // be read or ends earlier.
  enum class Prefix { kHash, kSkip };
  static std::unique_ptr<RowSplitter> open(const std::string& path, const std::string& name,
                                           const ContentCursor& from = {},
                                           Prefix prefix = Prefix::kHash);
  virtual ~RowSplitter() = default;

  virtual RowForm form() const { return RowForm::kJson; }
  // Fills `block` with the next rows, about `target` bytes; false at the end. Throws Error
  // "name:line:
  // ..." for UTF-16, for a row above 1 GiB and for rows that cannot be told apart, after all rows
  // before that point are returned.
  bool next(RowBlock& block, size_t target = size_t{1} << 20);

  const RawFile& file() const { return stream_->file(); }  // as far as it was read
  // Returns the hash of the content before `from`. Call it once.
  Hasher take_prefix() { return std::move(prefix_); }

 protected:
  RowSplitter() = default;
  // Finds the rows in `content`, the bytes after cursor_, appends them to `rows` and moves cursor_
  // after the part that is finished: everything at the end of the file, else at least every row
  // whose end is certain. Called again with more bytes if it moved nothing.
  virtual void split(std::string_view content, bool at_end,
                     std::vector<RowBlock::RowExtent>& rows) = 0;
  // Appends the row that begins at content[begin] and moves cursor_, whose bytes begin at
  // content[at], to content[after]. Returns after.
  size_t add_row(std::string_view content, size_t at, size_t begin, size_t end, size_t after,
                 std::vector<RowBlock::RowExtent>& rows);
  // Moves cursor_ over content[at] to content[after]. Returns after.
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
