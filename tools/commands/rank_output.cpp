// Each line is printed by one call, so that lines of two ranks never mix.

#include "tools/commands/rank_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/console/terminal/shown_text.h"

namespace xrun {

namespace {

constexpr size_t kLongestLine = 64 << 10;  // a longer one is printed in pieces

// Reads of one call, enough to empty a pipe of 1 MiB, the most that a process may ask for. A rank
// that prints without end must not keep the launcher from its signals.
constexpr int kMostReads = 64;

// On a terminal rank 0 may have drawn a progress line, which the line replaces; rank 0 draws it
// again.
void print_line(int64_t rank, const std::string& line) {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const std::string text = fmt::format("{}[{}] {}\n", terminal ? "\r\x1b[K" : "", rank,
                                       terminal ? shown_text(line) : line);
  std::fputs(text.c_str(), stderr);
}

}  // namespace

RankOutput::RankOutput(int64_t rank, Socket pipe) : rank_(rank), pipe_(std::move(pipe)) {
  ::fcntl(pipe_.fd(), F_SETFL, O_NONBLOCK);
}

void RankOutput::print_early_lines() {
  for (const std::string& line : early_lines_) print_line(rank_, line);
  early_lines_.clear();
}

void RankOutput::take_line(const std::string& line, const std::function<bool()>& joined) {
  early_lines_.push_back(line);
  if (joined()) print_early_lines();
}

void RankOutput::read(const std::function<bool()>& joined) {
  char bytes[16384];
  for (int reads = 0; pipe_.open() && reads < kMostReads; ++reads) {
    const ssize_t count = ::read(pipe_.fd(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      if (!line_.empty()) take_line(line_, joined);
      line_.clear();
      pipe_ = Socket();
      return;
    }
    line_.append(bytes, static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      take_line(line_.substr(begin, end - begin), joined);
    }
    line_.erase(0, begin);
    if (line_.size() > kLongestLine) {
      take_line(line_, joined);
      line_.clear();
    }
  }
}

}  // namespace xrun
