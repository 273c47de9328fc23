#include "core/data/jsonl.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr size_t kReadBytes = 1 << 18;
constexpr size_t kMaxLineBytes = size_t{1} << 30;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

}  // namespace

JsonlReader::JsonlReader(const std::string& path, const std::string& name, JsonlCursor from)
    : name_(name), cursor_(from) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  XRUN_CHECK(fd_ >= 0, "{}: cannot be opened: {}", name, std::strerror(errno));
  try {
    struct stat info {};
    XRUN_CHECK(::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode), "{}: is not a regular file",
               name);
    read_prefix(from.offset);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

void JsonlReader::read_prefix(uint64_t bytes) {
  std::string piece(kReadBytes, '\0');
  while (bytes > 0) {
    check_interrupt();
    const size_t n = read_piece(piece.data(), std::min<uint64_t>(piece.size(), bytes));
    XRUN_CHECK(n > 0, "{}: ends {} bytes before the place where reading goes on", name_, bytes);
    read_.bytes({piece.data(), n});
    bytes -= n;
  }
}

size_t JsonlReader::read_piece(char* to, size_t size) {
  ssize_t n = 0;
  do {
    n = ::read(fd_, to, size);
  } while (n < 0 && errno == EINTR);
  XRUN_CHECK(n >= 0, "{}: cannot be read: {}", name_, std::strerror(errno));
  return static_cast<size_t>(n);
}

JsonlReader::~JsonlReader() { ::close(fd_); }

bool JsonlReader::fill() {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    scanned_ -= begin_;
    begin_ = 0;
  }
  XRUN_CHECK(buffer_.size() <= kMaxLineBytes,
             "{}:{}: the line is longer than {} bytes; a row is one line", name_, cursor_.lines + 1,
             kMaxLineBytes);
  const size_t size = buffer_.size();
  buffer_.resize(size + std::max(kReadBytes, size));
  const size_t n = read_piece(buffer_.data() + size, buffer_.size() - size);
  buffer_.resize(size + n);
  return n > 0;
}

bool JsonlReader::next_line(std::string_view& line) {
  size_t end = std::string::npos;
  while ((end = buffer_.find('\n', scanned_)) == std::string::npos) {
    scanned_ = buffer_.size();
    if (!fill()) break;
  }
  const bool last = end == std::string::npos;
  if (last) end = buffer_.size();
  if (last && begin_ == end) return false;
  line = std::string_view(buffer_).substr(begin_, end - begin_);
  const size_t next = last ? end : end + 1;
  const bool first = cursor_.offset == 0;
  cursor_.offset += next - begin_;
  read_.bytes(std::string_view(buffer_).substr(begin_, next - begin_));
  ++cursor_.lines;
  begin_ = scanned_ = next;
  XRUN_CHECK(!first || !is_utf16(line), "{}:1: is {}", name_, kUtf16Hint);
  if (first && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return true;
}

bool JsonlReader::next_row(RawRow& out) {
  std::string_view line;
  do {
    if (!next_line(line)) return false;
  } while (is_blank(line));
  out.text = line;
  out.at.line = cursor_.lines;
  return true;
}

}  // namespace xrun
