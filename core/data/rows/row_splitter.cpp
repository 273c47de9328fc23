// If a row is longer than the bytes read so far, splitting starts again at its beginning with twice
// as many, so a row of n bytes costs at most 2n bytes of splitting.

#include "core/data/rows/row_splitter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/utf8.h"
#include "core/data/rows/data_fault.h"

namespace xrun {

namespace {

constexpr size_t kMaxRowBytes = size_t{1} << 30;
constexpr size_t kPrefixPiece = size_t{1} << 18;
constexpr size_t kCarryBytes = size_t{8} << 20;  // memory above this is freed after a long row

bool is_blank_line(std::string_view line) {
  return line.find_first_not_of(" \t\r\v\f\n") == std::string_view::npos;
}

// .jsonl: lines end with LF or CRLF, the last one also with the file.
class LineSplitter : public RowSplitter {
 protected:
  void split(std::string_view content, bool at_end,
             std::vector<RowBlock::RowExtent>& rows) override {
    // Only the first bytes of a file are a byte order mark.
    const bool marked = cursor_.offset == 0 && content.starts_with(kByteOrderMark);
    size_t begin = marked ? kByteOrderMark.size() : 0;
    for (size_t at = 0; at < content.size(); begin = at) {
      size_t end = content.find('\n', at);
      // The rest is the beginning of a line that the next block completes.
      if (end == std::string_view::npos && !at_end) return;
      const size_t after = std::min(content.size(), end == std::string_view::npos ? end : end + 1);
      end = std::min(end, content.size());
      if (end > begin && content[end - 1] == '\r') --end;
      if (is_blank_line(content.substr(begin, end - begin))) {
        at = skip(content, at, after);
      } else {
        at = add_row(content, at, begin, end, after, rows);
      }
    }
  }
};

// .txt: rows are separated by blank lines. A row's text ends before its last line end.
class ParagraphSplitter : public RowSplitter {
 public:
  RowForm form() const override { return RowForm::kText; }

 protected:
  // Bytes up to `done` are accounted for; a row is added once the blank line after it is seen.
  void split(std::string_view content, bool at_end,
             std::vector<RowBlock::RowExtent>& rows) override {
    const bool marked = cursor_.offset == 0 && content.starts_with(kByteOrderMark);
    size_t begin = marked ? kByteOrderMark.size() : 0;  // of the row
    size_t end = begin;                                 // of its last line; begin: it has none yet
    size_t after = 0;                                   // that line's end
    size_t done = 0;
    for (size_t at = begin; at < content.size();) {
      size_t line_end = content.find('\n', at);
      if (line_end == std::string_view::npos && !at_end) return;
      const size_t next = line_end == std::string_view::npos ? content.size() : line_end + 1;
      line_end = std::min(line_end, content.size());
      if (is_blank_line(content.substr(at, line_end - at))) {
        if (end > begin) done = add_row(content, done, begin, end, after, rows);
        done = skip(content, done, next);
        begin = end = next;
      } else {
        end = line_end > at && content[line_end - 1] == '\r' ? line_end - 1 : line_end;
        after = next;
      }
      at = next;
    }
    if (!at_end) return;
    if (end > begin) done = add_row(content, done, begin, end, after, rows);
    skip(content, done, content.size());
  }
};

// .json: one array of rows. Brackets and strings alone tell where an element ends, so that a bad
// element is one bad row and no file is parsed whole.

constexpr size_t kUnknown = std::string_view::npos;
constexpr std::string_view kSpace = " \t\r\n";

// Returns the position after the string that begins at text[at], or kUnknown.
size_t string_end(std::string_view text, size_t at) {
  for (size_t quote = text.find('"', at + 1); quote != kUnknown;
       quote = text.find('"', quote + 1)) {
    // A quote after an odd number of backslashes belongs to the string.
    // text[at] is a quote too, so the search ends there at the latest.
    size_t escapes = quote;
    while (text[escapes - 1] == '\\') --escapes;
    if ((quote - escapes) % 2 == 0) return quote + 1;
  }
  return kUnknown;
}

// Returns the position after the object or list that begins at text[at], or kUnknown.
size_t nested_end(std::string_view text, size_t at) {
  // A count, not a stack: mismatched brackets are found by the parser of the row.
  for (int64_t depth = 0; at < text.size();) {
    switch (text[at]) {
      case '"':
        at = string_end(text, at);
        if (at == kUnknown) return kUnknown;
        continue;
      case '{':
      case '[': ++depth; break;
      case '}':
      case ']':
        if (--depth == 0) return at + 1;
        break;
      default: break;
    }
    ++at;
  }
  return kUnknown;
}

size_t value_end(std::string_view text, size_t at) {
  if (text[at] == '"') return string_end(text, at);
  if (text[at] == '{' || text[at] == '[') return nested_end(text, at);
  // A number or a word that touches the end of the content may continue in the next block.
  return text.find_first_of(",]} \t\r\n", at);
}

// Returns the first key of the object at text[at] whose value is a list, if `text` reaches that far
// and the key is a plain word; else "rows".
std::string list_member(std::string_view text, size_t at) {
  for (size_t key = text.find_first_not_of(kSpace, at + 1); key != kUnknown && text[key] == '"';
       key = text.find_first_not_of(kSpace, at + 1)) {
    const size_t end = string_end(text, key);
    const size_t colon = end == kUnknown ? end : text.find_first_not_of(kSpace, end);
    const size_t value = colon == kUnknown ? colon : text.find_first_not_of(kSpace, colon + 1);
    if (value == kUnknown) break;
    const std::string_view name = text.substr(key + 1, end - key - 2);
    const bool plain = name.find_first_of("\"'\\$`") == kUnknown;
    if (text[value] == '[' && plain) return std::string(name);
    at = text.find_first_not_of(kSpace, std::min(value_end(text, value), text.size()));
    if (at == kUnknown || text[at] != ',') break;
  }
  return "rows";
}

class ArraySplitter : public RowSplitter {
 protected:
  void split(std::string_view content, bool at_end,
             std::vector<RowBlock::RowExtent>& rows) override {
    size_t done = 0;
    if (cursor_.offset == 0) {
      done = content.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    }
    // The cursor is after a row, but before the comma or bracket that follows it.
    bool opened = cursor_.rows > 0;
    bool behind_element = opened;
    done = skip(content, 0, done);
    while (!ended_) {
      size_t at = content.find_first_not_of(kSpace, done);
      // More content is needed, or the file ended inside the array.
      if (at == kUnknown) break;
      if (!opened) {
        if (content[at] != '[') refuse_beginning(content, at);
        opened = true;
        at = content.find_first_not_of(kSpace, at + 1);
        if (at == kUnknown) break;
      }
      if (content[at] == ']') {
        ended_ = true;
        done = skip(content, done, at + 1);
        break;
      }
      if (behind_element) {
        if (content[at] != ',') refuse(content, done, at, "wanted a comma or ] after an element");
        at = content.find_first_not_of(kSpace, at + 1);
        if (at == kUnknown) break;
      }
      if (std::strchr(",]}", content[at]) != nullptr) refuse(content, done, at, "wanted a value");
      const size_t end = value_end(content, at);
      if (end == kUnknown) break;
      done = add_row(content, done, at, end, end, rows);
      behind_element = true;
    }
    if (ended_) {
      const size_t more = content.find_first_not_of(kSpace, done);
      if (more != kUnknown) refuse(content, done, more, "there is text after the array");
      skip(content, done, content.size());
    } else if (at_end) {
      refuse(content, done, content.size(), "the file ends inside the array");
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view content, size_t done, size_t at, const char* what) {
    skip(content, done, at);
    throw Error(
        fmt::format("{}:{}:{}: is not valid JSON: {}; the elements after this point "
                    "cannot be told apart",
                    name(), cursor_.lines + 1, cursor_.column + 1, what));
  }

  // Two other kinds of files that are often called .json.
  [[noreturn]] void refuse_beginning(std::string_view content, size_t at) {
    const size_t end = content[at] == '{' ? nested_end(content, at) : kUnknown;
    const size_t next = end == kUnknown ? end : content.find_first_not_of(kSpace, end);
    if (next != kUnknown && content[next] == '{') {
      throw Error(
          fmt::format("{}: holds one object after another, wanted an array of rows; these "
                      "are JSON Lines: give the file a name that ends with .jsonl",
                      name()));
    }
    if (content[at] == '{') {
      throw Error(fmt::format(
          "{}: is one object, wanted an array of rows; if the rows are a member of it, extract "
          "them, for example with\n  python3 -c \"import json, sys; "
          "json.dump(json.load(open(sys.argv[1]))['{}'], open(sys.argv[2], 'x'))\" IN.json "
          "OUT.json",
          name(), list_member(content, at)));
    }
    refuse(content, 0, at, "wanted [, an array of rows");
  }

  bool ended_ = false;
};

// The name without .gz or .zst decides, since contents of different forms may look alike.
std::unique_ptr<RowSplitter> make_splitter(const std::string& path, const std::string& name) {
  const std::string content = content_name(path);
  if (content.ends_with(".jsonl")) return std::make_unique<LineSplitter>();
  if (content.ends_with(".json")) return std::make_unique<ArraySplitter>();
  if (content.ends_with(".txt")) return std::make_unique<ParagraphSplitter>();
  throw Error(fmt::format("{}: rows are read from .jsonl, .json and .txt files", name));
}

}  // namespace

// Errors in here are faults of the data, not of the recipe.
std::unique_ptr<RowSplitter> RowSplitter::open(const std::string& path, const std::string& name,
                                               const ContentCursor& from, Prefix prefix) {
  return as_data_errors([&] {
    std::unique_ptr<RowSplitter> splitter = make_splitter(path, name);
    splitter->name_ = name;
    splitter->stream_ = open_byte_stream(path, name);
    // Otherwise the prefix is read, for its digest or because the stream cannot seek.
    const bool skipped = prefix == Prefix::kSkip && splitter->stream_->skip(from.offset);
    if (!skipped) splitter->read_prefix(from.offset);
    splitter->cursor_ = from;
    return splitter;
  });
}

void RowSplitter::read_prefix(uint64_t bytes) {
  std::string piece(kPrefixPiece, '\0');
  while (bytes > 0) {
    check_interrupt();
    const size_t n = stream_->read(piece.data(), std::min<uint64_t>(piece.size(), bytes));
    XRUN_CHECK(n > 0, "{}: ends {} bytes before the position where reading continues", name_,
               bytes);
    prefix_.bytes({piece.data(), n});
    bytes -= n;
  }
}

// A fault waits until the rows before it are returned, so that block sizes do not decide which
// error is thrown.
void RowSplitter::split_block(RowBlock& block) {
  try {
    split(block.content, at_end_, block.rows);
  } catch (const Error&) {
    // The rows before the fault come first, the fault with the next call.
    if (block.rows.empty()) throw;
    fault_ = std::current_exception();
  }
}

bool RowSplitter::next(RowBlock& block, size_t target) {
  return as_data_errors([&] { return read_block(block, target); });
}

bool RowSplitter::read_block(RowBlock& block, size_t target) {
  if (fault_) std::rethrow_exception(fault_);
  block.rows.clear();
  block.from = cursor_;
  std::string& content = block.content;
  content.assign(carry_);
  carry_.clear();
  // One long row must not hold memory for the rest of the file.
  if (carry_.capacity() > kCarryBytes) carry_.shrink_to_fit();
  // Reads until at least one row is whole.
  for (size_t want = target;; want = std::max(want, 2 * content.size())) {
    const size_t have = content.size();
    if (!at_end_ && have < want) {
      content.resize(want);
      const size_t n = stream_->read(content.data() + have, want - have);
      // A stream gives fewer bytes only at its end.
      at_end_ = have + n < want;
      content.resize(have + n);
    }
    if (cursor_.offset == 0) check_beginning(content);
    split_block(block);
    if (content.empty()) return false;
    if (cursor_.offset > block.from.offset) break;
    XRUN_CHECK(content.size() <= kMaxRowBytes, "{}:{}: the row is longer than {} bytes", name_,
               cursor_.lines + 1, kMaxRowBytes);
  }
  block.after = cursor_;
  // The bytes after the last whole row begin the next block.
  carry_.assign(content, block.bytes());
  content.resize(block.bytes());
  // The JSON parser reads beyond the end of a row.
  content.append(RowBlock::kPadding, '\0');
  return true;
}

// Refuses UTF-16, which would have no line ends and end in an error about a long row.
void RowSplitter::check_beginning(std::string_view content) const {
  const std::string_view line = content.substr(0, content.find('\n'));
  XRUN_CHECK(!is_utf16(line), "{}:1: is {}", name_, kUtf16Hint);
}

size_t RowSplitter::skip(std::string_view content, size_t at, size_t after) {
  cursor_.offset += after - at;
  // Line numbers are those of the file, so every byte is searched once.
  while (at < after) {
    const void* end = std::memchr(content.data() + at, '\n', after - at);
    if (end == nullptr) break;
    ++cursor_.lines;
    cursor_.column = 0;
    at = static_cast<size_t>(static_cast<const char*>(end) - content.data()) + 1;
  }
  cursor_.column += after - at;
  return after;
}

// Line and column are those of the row's first byte, for messages.
size_t RowSplitter::add_row(std::string_view content, size_t at, size_t begin, size_t end,
                            size_t after, std::vector<RowBlock::RowExtent>& rows) {
  skip(content, at, begin);
  const int64_t line = cursor_.lines + 1;
  const uint64_t column = cursor_.column;
  ++cursor_.rows;
  skip(content, begin, after);
  rows.push_back({begin, end, line, column, cursor_});
  return after;
}

}  // namespace xrun
