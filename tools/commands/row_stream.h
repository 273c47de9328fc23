#pragma once
// Rows in and out of a command: lines of a file or of standard input, lines to standard output.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace xrun {

class RowSplitter;
struct RowBlock;

// Rows of a text: its lines or, with kDocuments, the text between blank lines of a .txt file, as
// training reads it.
enum class TextRows { kLines, kDocuments };

// Reads rows, which are lines unless `rows` says otherwise. Not thread-safe.
class RowReader {
 public:
  // An empty path and "-" are standard input. Throws Error if the file cannot be opened.
  explicit RowReader(const std::string& path, TextRows rows = TextRows::kLines);
  ~RowReader();
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  // Sets `line` to the next row without its last '\n'; false at the end. Throws Error if reading
  // fails.
  bool next(std::string& line);
  const std::string& name() const { return name_; }
  int64_t line() const { return line_; }  // where the last row begins, 1-based
  std::string location() const;           // "name:line"

 private:
  bool next_document(std::string& text);

  std::string name_;
  std::unique_ptr<RowSplitter> documents_;  // null: rows are lines
  std::unique_ptr<RowBlock> block_;         // of documents_
  size_t row_ = 0;                          // the next one of block_
  std::FILE* file_ = nullptr;
  char* buffer_ = nullptr;  // allocated by getline
  size_t capacity_ = 0;
  int64_t line_ = 0;
};

// Prints a note on standard error if the first line, which is read as text, is an object with a
// field of the command's rows. `fate` says what happens to it: "is tokenized as text".
void note_json_row(const std::string& line, const RowReader& rows, std::string_view fate);

// Prints notes on rows to standard error, each text once, with its first row.
class RowNotes {
 public:
  void print(const RowReader& rows, const std::string& note);

 private:
  std::set<std::string> printed_;
};

// Returns the output of a row that failed: {"error": message}.
std::string error_row(const std::string& message);

// Writes lines to standard output through a buffer. Not thread-safe.
class RowWriter {
 public:
  void write(std::string_view line);  // adds the '\n'
  // Flushes the buffer. Throws Error if writing fails; on a closed pipe the process ends quietly
  // with status 1.
  void finish();

 private:
  std::string buffer_;
};

}  // namespace xrun
