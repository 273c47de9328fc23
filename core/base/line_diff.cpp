// Longest common subsequence by dynamic programming over the lines between the common beginning and
// the common end: table[i][j] is its length for the lines from i and from j on.

#include "core/base/line_diff.h"

#include <fmt/core.h>

#include <algorithm>

namespace xrun {

namespace {

constexpr size_t kMostCells = size_t{4} << 20;  // 16 MiB of lengths

using Lines = std::vector<std::string_view>;

// A line feed at the end adds no empty line.
Lines lines_of(std::string_view text) {
  Lines out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

class Diff {
 public:
  Diff(const Lines& first, const Lines& second) : first_(first), second_(second) {}

  // Usually few lines differ, so leaving out the common beginning and end keeps the table small.
  std::vector<DiffLine> run() {
    size_t begin = 0;
    while (begin < first_.size() && begin < second_.size() && first_[begin] == second_[begin]) {
      ++begin;
    }
    size_t end = 0;
    // The common end must not overlap the common beginning.
    while (end < first_.size() - begin && end < second_.size() - begin &&
           first_[first_.size() - 1 - end] == second_[second_.size() - 1 - end]) {
      ++end;
    }
    for (size_t i = 0; i < begin; ++i) add(LineSide::kBoth, i);
    middle(begin, first_.size() - end, second_.size() - end);
    for (size_t i = first_.size() - end; i < first_.size(); ++i) add(LineSide::kBoth, i);
    return std::move(out_);
  }

 private:
  void add(LineSide side, size_t at) {
    const Lines& lines = side == LineSide::kSecond ? second_ : first_;
    out_.push_back({side, static_cast<int64_t>(at) + 1, std::string(lines[at])});
  }

  // Lines [begin, first_end) of the first text and [begin, second_end) of the second one.
  void middle(size_t begin, size_t first_end, size_t second_end) {
    const size_t n = first_end - begin;
    const size_t m = second_end - begin;
    size_t i = 0;
    size_t j = 0;
    // If the table would be too large: all lines of the first text, then all of the second.
    if ((n + 1) <= kMostCells / (m + 1)) {
      std::vector<uint32_t> table((n + 1) * (m + 1), 0);
      const auto at = [&](size_t a, size_t b) -> uint32_t& { return table[a * (m + 1) + b]; };
      // From the end, so that the walk below goes forward.
      for (size_t a = n; a-- > 0;) {
        for (size_t b = m; b-- > 0;) {
          at(a, b) = first_[begin + a] == second_[begin + b] ? at(a + 1, b + 1) + 1
                                                             : std::max(at(a + 1, b), at(a, b + 1));
        }
      }
      while (i < n && j < m) {
        if (first_[begin + i] == second_[begin + j]) {
          add(LineSide::kBoth, begin + i);
          ++i;
          ++j;
        } else if (at(i + 1, j) >= at(i, j + 1)) {
          // On a tie the first text's line comes first, so removals precede additions.
          add(LineSide::kFirst, begin + i++);
        } else {
          add(LineSide::kSecond, begin + j++);
        }
      }
    }
    while (i < n) add(LineSide::kFirst, begin + i++);
    while (j < m) add(LineSide::kSecond, begin + j++);
  }

  const Lines& first_;
  const Lines& second_;
  std::vector<DiffLine> out_;
};

}  // namespace

std::vector<DiffLine> diff_lines(std::string_view first, std::string_view second) {
  const Lines a = lines_of(first);
  const Lines b = lines_of(second);
  return Diff(a, b).run();
}

// Unified diffs without their headers: `around` common lines beside each change.
std::vector<std::string> diff_text(const std::vector<DiffLine>& lines, size_t around) {
  std::vector<bool> shown(lines.size(), false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].side == LineSide::kBoth) continue;
    const size_t from = i > around ? i - around : 0;
    // A common line near two changes is shown once.
    const size_t to = std::min(lines.size(), i + around + 1);
    std::fill(shown.begin() + static_cast<std::ptrdiff_t>(from),
              shown.begin() + static_cast<std::ptrdiff_t>(to), true);
  }
  std::vector<std::string> out;
  size_t last = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!shown[i]) continue;
    // Lines between this one and the last shown one are left out.
    if (!out.empty() && i > last + 1) out.emplace_back("...");
    last = i;
    const char mark = lines[i].side == LineSide::kBoth    ? ' '
                      : lines[i].side == LineSide::kFirst ? '-'
                                                          : '+';
    out.push_back(fmt::format("{} {:>3}  {}", mark, lines[i].line, lines[i].text));
  }
  return out;
}

}  // namespace xrun
