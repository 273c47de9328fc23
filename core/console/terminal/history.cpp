// Each input is appended with a single write of one line, so that lines of several processes do not
// mix. A process that finds the file too long rewrites it, under the lock that appends take too.

#include "core/console/terminal/history.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/file.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr size_t kMostInputs = 5000;
constexpr int64_t kMostBytes = 4 << 20;   // read from the end of the file
constexpr size_t kLongestLine = 1 << 16;  // nobody typed a longer one; it is skipped

std::string encode(std::string_view input) {
  std::string line;
  for (const char c : input) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\\') {
      // Escaped too, so that "\n" typed as two characters survives.
      line += "\\\\";
    } else {
      line += c;
    }
  }
  return line + '\n';
}

// Removes controls except line ends and tabs; invalid UTF-8 becomes U+FFFD.
std::string decode(std::string_view line) {
  std::string text;
  for (size_t at = 0; at < line.size(); ++at) {
    char c = line[at];
    if (c == '\\' && at + 1 < line.size()) {
      c = line[++at];
      if (c == 'n') c = '\n';
    }
    // After the escapes, so that a backslash does not shield a control.
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t') text += c;
  }
  return repair_utf8(text);
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\n") == text.npos; }

bool fits(const std::string& input, std::string_view text, bool at_beginning) {
  return at_beginning ? input.starts_with(text) : input.find(text) != std::string::npos;
}

// Owns an open descriptor and the file's lock.
class FlockedFile {
 public:
  // Callers pass O_NONBLOCK, so that opening a FIFO of that name does not block.
  FlockedFile(const std::filesystem::path& file, int flags)
      : fd_(::open(file.c_str(), flags, 0600)) {
    struct stat about {};
    if (fd_ < 0) return;
    if (::fstat(fd_, &about) != 0 || !S_ISREG(about.st_mode)) {
      close();
      errno = EINVAL;
    } else {
      ::flock(fd_, LOCK_EX);
    }
  }
  ~FlockedFile() { close(); }
  FlockedFile(const FlockedFile&) = delete;
  FlockedFile& operator=(const FlockedFile&) = delete;
  int fd() const { return fd_; }

 private:
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int fd_;
};

bool write_whole(int fd, std::string_view text) {
  // A short write is an error: the remainder could land after another process's line.
  return ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

std::filesystem::path history_file() {
  const auto folder = [](const char* name) {
    const char* value = std::getenv(name);
    // A relative path is ignored, as the XDG specification asks.
    return std::filesystem::path(value == nullptr || value[0] != '/' ? "" : value);
  };
  if (const auto state = folder("XDG_STATE_HOME"); !state.empty()) return state / "xrun/history";
  if (const auto home = folder("HOME"); !home.empty()) return home / ".local/state/xrun/history";
  return {};
}

History::History(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty()) {
    problem_ = "inputs are not saved: neither XDG_STATE_HOME nor HOME is set";
    return;
  }
  load();
}

void History::load() {
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const FlockedFile opened(file_, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened.fd() < 0) {
    problem_ = fmt::format("inputs are not saved: {}: {}", file_.string(), std::strerror(errno));
    return;
  }
  // Only the end of a long file is read.
  const int64_t size = ::lseek(opened.fd(), 0, SEEK_END);
  const int64_t begin = std::max<int64_t>(0, size - kMostBytes);
  std::string bytes(static_cast<size_t>(size - begin), '\0');
  const ssize_t got = ::pread(opened.fd(), bytes.data(), bytes.size(), begin);
  bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  size_t at = begin == 0 ? 0 : bytes.find('\n') + 1;  // skips the line that the limit cuts
  while (at < bytes.size()) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = std::string_view(bytes).substr(at, end - at);
    if (line.size() <= kLongestLine) {
      std::string input = decode(line);
      if (!is_blank(input)) inputs_.push_back(std::move(input));
    }
    at = end + 1;
  }
  // Rewrites rarely: at twice the limit, or if the file was not read from its beginning.
  if (inputs_.size() <= kMostInputs * 2 && begin == 0) return;
  if (inputs_.size() > kMostInputs) inputs_.erase(inputs_.begin(), inputs_.end() - kMostInputs);
  rewrite(opened.fd());
}

void History::rewrite(int fd) const {
  std::string text;
  for (const std::string& input : inputs_) text += encode(input);
  // Overwrites the file instead of renaming a new one over it: processes that hold it open go on
  // appending to it, and the new text is shorter, so a full disk does not matter.
  ::lseek(fd, 0, SEEK_SET);
  if (!write_whole(fd, text)) return;
  // If this fails, the old end follows the new text, and the next start tries again.
  if (::ftruncate(fd, static_cast<off_t>(text.size())) != 0) return;
}

void History::append(const std::string& line) {
  // Opens the file for each input, because it may have been replaced meanwhile.
  const FlockedFile opened(file_,
                           O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened.fd() >= 0 && write_whole(opened.fd(), line)) return;
  problem_ = fmt::format("inputs are not saved: {}: {}", file_.string(), std::strerror(errno));
}

void History::add(std::string_view input) {
  while (!input.empty() && input.back() == '\n') input.remove_suffix(1);
  // As in shells, a leading space keeps an input out of the history.
  if (is_blank(input) || input[0] == ' ') return;
  if (!inputs_.empty() && inputs_.back() == input) return;
  inputs_.emplace_back(input);
  if (!file_.empty() && problem_.empty()) append(encode(input));
}

std::optional<size_t> History::find_older(size_t from, std::string_view text,
                                          bool at_beginning) const {
  for (size_t i = std::min(from, inputs_.size()); i > 0; --i) {
    if (fits(inputs_[i - 1], text, at_beginning)) return i - 1;
  }
  return std::nullopt;
}

std::optional<size_t> History::find_newer(size_t from, std::string_view text,
                                          bool at_beginning) const {
  for (size_t i = from + 1; i < inputs_.size(); ++i) {
    if (fits(inputs_[i], text, at_beginning)) return i;
  }
  return std::nullopt;
}

}  // namespace xrun
