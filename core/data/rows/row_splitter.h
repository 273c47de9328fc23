#pragma once
// A data file as blocks of whole rows, split without being parsed.

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
#include "core/data/rows/row_type.h"

namespace xrun {

// A place in the content of a file (decompressed where it is compressed), behind a row.
struct ContentCursor {
  uint64_t offset = 0;  // bytes before it
  int64_t lines = 0;    // line ends before it
  int64_t rows = 0;     // rows before it
  uint64_t column = 0;  // bytes between the last line end and it
};

// A piece of the content that holds whole rows. Kept and filled again, it keeps its memory.
struct RowBlock {
  struct Row {
    size_t begin = 0, end = 0;  // of its text, in content
    int64_t line = 0;           // on which it begins, from 1
    uint64_t column = 0;        // bytes of that line before it
    ContentCursor behind;
  };
  // The content from `from` to `behind`, then zeros that parsers may read.
  static constexpr size_t kPadding = 64;
  std::string content;
  ContentCursor from, behind;
  std::vector<Row> rows;

  size_t bytes() const { return behind.offset - from.offset; }
  std::string_view text(size_t row) const {
    return std::string_view(content).substr(rows[row].begin, rows[row].end - rows[row].begin);
  }
};

// Reads a file's rows in order; memory is bounded by the block and the longest row (at most 1 GiB).
// Bad JSON is not its affair as long as it can tell where rows end. Not thread-safe.
class RowSplitter {
 public:
  // Chooses by the name: .jsonl (a row a line; blank lines are none), .json (an array of rows),
  // .txt (rows parted by blank lines), each also .gz or .zst. The content before `from` is read for
  // take_prefix() alone. Throws Error that begins with `name` if the file cannot be read or ends
  // before.
  static std::unique_ptr<RowSplitter> open(const std::string& path, const std::string& name,
                                           const ContentCursor& from = {});
  virtual ~RowSplitter() = default;

  virtual RowForm form() const { return RowForm::kJson; }
  // Fills `block` with the next rows, about `target` bytes of them; false at the end. Throws Error
  // "name:line: ..." for UTF-16, for a row beyond 1 GiB and where rows cannot be told apart, once
  // all rows before that place are given.
  bool next(RowBlock& block, size_t target = size_t{1} << 20);

  const RawFile& file() const { return stream_->file(); }  // as far as it is read
  // The content before `from`, hashed; asked for once.
  Hasher take_prefix() { return std::move(prefix_); }

 protected:
  RowSplitter() = default;
  // Finds the rows in `content`, the bytes behind cursor_, and appends them to `rows`. Moves
  // cursor_ behind what is done with: at the end all of it, else at least every row whose end is
  // certain. Called again with more bytes after a call that moved nothing.
  virtual void split(std::string_view content, bool at_end, std::vector<RowBlock::Row>& rows) = 0;
  // Appends the row that begins at content[begin] and moves cursor_, whose bytes begin at
  // content[at], to content[behind]. Returns behind.
  size_t add_row(std::string_view content, size_t at, size_t begin, size_t end, size_t behind,
                 std::vector<RowBlock::Row>& rows);
  // Moves cursor_ over content[at] to content[behind]. Returns behind.
  size_t skip(std::string_view content, size_t at, size_t behind);
  const std::string& name() const { return name_; }

  ContentCursor cursor_;

 private:
  void read_prefix(uint64_t bytes);
  void split_block(RowBlock& block);
  void check_beginning(std::string_view content) const;

  std::string name_;
  std::unique_ptr<ByteStream> stream_;
  Hasher prefix_;
  std::string carry_;  // content read and not yet in a block
  bool at_end_ = false;
  std::exception_ptr fault_;  // met behind rows that were given
};

// One class a format.
std::unique_ptr<RowSplitter> make_line_splitter();
std::unique_ptr<RowSplitter> make_array_splitter();
std::unique_ptr<RowSplitter> make_paragraph_splitter();

// Whether nothing but white space stands in a line.
bool is_blank_line(std::string_view line);

}  // namespace xrun
