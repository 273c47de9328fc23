// Splitting is done again from the last row's end when a row turns out longer than what is read;
// what is read doubles each time, so a row of n bytes costs at most 2n bytes of splitting.

#include "core/data/rows/row_splitter.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr size_t kMaxRowBytes = size_t{1} << 30;
constexpr size_t kPrefixPiece = size_t{1} << 18;
constexpr size_t kCarryBytes = size_t{8} << 20;  // beyond, memory of a long row is not kept

std::unique_ptr<RowSplitter> make_splitter(const std::string& path, const std::string& name) {
  const std::string content = content_name(path);
  if (content.ends_with(".jsonl")) return make_line_splitter();
  if (content.ends_with(".json")) return make_array_splitter();
  if (content.ends_with(".txt")) return make_paragraph_splitter();
  throw Error(fmt::format("{}: rows are read from .jsonl, .json and .txt files", name));
}

}  // namespace

bool is_blank_line(std::string_view line) {
  return line.find_first_not_of(" \t\r\v\f\n") == std::string_view::npos;
}

std::unique_ptr<RowSplitter> RowSplitter::open(const std::string& path, const std::string& name,
                                               const ContentCursor& from) {
  std::unique_ptr<RowSplitter> splitter = make_splitter(path, name);
  splitter->name_ = name;
  splitter->stream_ = open_byte_stream(path, name);
  splitter->read_prefix(from.offset);
  splitter->cursor_ = from;
  return splitter;
}

void RowSplitter::read_prefix(uint64_t bytes) {
  std::string piece(kPrefixPiece, '\0');
  while (bytes > 0) {
    check_interrupt();
    const size_t n = stream_->read(piece.data(), std::min<uint64_t>(piece.size(), bytes));
    XRUN_CHECK(n > 0, "{}: ends {} bytes before the place where reading goes on", name_, bytes);
    prefix_.bytes({piece.data(), n});
    bytes -= n;
  }
}

// A fault behind rows waits until these are given: what a block holds decides no error.
void RowSplitter::split_block(RowBlock& block) {
  try {
    split(block.content, at_end_, block.rows);
  } catch (const Error&) {
    if (block.rows.empty()) throw;
    fault_ = std::current_exception();
  }
}

bool RowSplitter::next(RowBlock& block, size_t target) {
  if (fault_) std::rethrow_exception(fault_);
  block.rows.clear();
  block.from = cursor_;
  std::string& content = block.content;
  content.assign(carry_);
  carry_.clear();
  if (carry_.capacity() > kCarryBytes) carry_.shrink_to_fit();
  for (size_t want = target;; want = std::max(want, 2 * content.size())) {
    const size_t have = content.size();
    if (!at_end_ && have < want) {
      content.resize(want);
      const size_t n = stream_->read(content.data() + have, want - have);
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
  block.behind = cursor_;
  carry_.assign(content, block.bytes());
  content.resize(block.bytes());
  content.append(RowBlock::kPadding, '\0');
  return true;
}

void RowSplitter::check_beginning(std::string_view content) const {
  const std::string_view line = content.substr(0, content.find('\n'));
  XRUN_CHECK(!is_utf16(line), "{}:1: is {}", name_, kUtf16Hint);
}

size_t RowSplitter::skip(std::string_view content, size_t at, size_t behind) {
  cursor_.offset += behind - at;
  while (at < behind) {
    const void* end = std::memchr(content.data() + at, '\n', behind - at);
    if (end == nullptr) break;
    ++cursor_.lines;
    cursor_.column = 0;
    at = static_cast<size_t>(static_cast<const char*>(end) - content.data()) + 1;
  }
  cursor_.column += behind - at;
  return behind;
}

size_t RowSplitter::add_row(std::string_view content, size_t at, size_t begin, size_t end,
                            size_t behind, std::vector<RowBlock::Row>& rows) {
  skip(content, at, begin);
  const int64_t line = cursor_.lines + 1;
  const uint64_t column = cursor_.column;
  ++cursor_.rows;
  skip(content, begin, behind);
  rows.push_back({begin, end, line, column, cursor_});
  return behind;
}

}  // namespace xrun
