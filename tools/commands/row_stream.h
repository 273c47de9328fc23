#pragma once
// Rows in and out of a command: lines of a file or of standard input, lines to standard output.

#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>

namespace xrun {

// Reads lines. Not thread-safe.
class RowReader {
 public:
  // An empty path and "-" are standard input. Throws Error if the file cannot be opened.
  explicit RowReader(const std::string& path);
  ~RowReader();
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  // Sets `line` to the next line without its '\n'; false at the end. Throws Error if reading fails.
  bool next(std::string& line);
  const std::string& name() const { return name_; }
  int64_t line() const { return line_; }  // the number of the last line, 1-based
  std::string location() const;           // "name:line"

 private:
  std::string name_;
  std::FILE* file_;
  char* buffer_ = nullptr;  // allocated by getline
  size_t capacity_ = 0;
  int64_t line_ = 0;
};

// Prints a note on standard error if the first line that is read as text is an object with a field
// of the command's rows. `fate` is what happens to it: "is tokenized as text".
void note_json_row(const std::string& line, const RowReader& rows, std::string_view fate);

// Prints notes on rows on standard error, each text once, with the first row that it is about.
class RowNotes {
 public:
  void print(const RowReader& rows, const std::string& note);

 private:
  std::set<std::string> printed_;
};

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
