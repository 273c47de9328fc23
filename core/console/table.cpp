#include "core/console/table.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr int kGap = 2;        // columns between cells
constexpr int kNarrowest = 8;  // a cut column keeps at least this much

struct Range {
  uint32_t first, last;
};

// Unicode's wide and fullwidth blocks (EastAsianWidth.txt, W and F), joined where what lies between
// is unassigned or rare.
constexpr std::array<Range, 14> kWide = {{{0x1100, 0x115F},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0x33FF},
                                          {0x3400, 0x4DBF},
                                          {0x4E00, 0x9FFF},
                                          {0xA000, 0xA4CF},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0xFFE0, 0xFFE6},
                                          {0x1F300, 0x1F64F},
                                          {0x1F900, 0x1F9FF},
                                          {0x20000, 0x3FFFD}}};
// Combining marks, joiners and variation selectors.
constexpr std::array<Range, 8> kZero = {{{0x0300, 0x036F},
                                         {0x0483, 0x0489},
                                         {0x0591, 0x05BD},
                                         {0x064B, 0x065F},
                                         {0x200B, 0x200F},
                                         {0x20D0, 0x20FF},
                                         {0xFE00, 0xFE0F},
                                         {0xFE20, 0xFE2F}}};

template <size_t N>
bool contains(const std::array<Range, N>& ranges, uint32_t value) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return value >= range.first && value <= range.last;
  });
}

int width_of(uint32_t code_point) {
  if (contains(kZero, code_point)) return 0;
  return contains(kWide, code_point) ? 2 : 1;
}

// Bytes of the escape sequence at text[at], or 0: ESC [ parameters letter.
size_t escape_size(std::string_view text, size_t at) {
  if (text[at] != '\x1b' || at + 1 >= text.size() || text[at + 1] != '[') return 0;
  size_t end = at + 2;
  while (end < text.size() && !(text[end] >= '@' && text[end] <= '~')) ++end;
  return end < text.size() ? end + 1 - at : 0;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    if (const size_t escape = escape_size(text, at)) {
      at += escape;
      continue;
    }
    const CodePoint point = read_utf8(text, at);
    width += width_of(point.value);
    at += point.size;
  }
  return width;
}

std::string cut_to_width(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  std::string out;
  bool painted = false;
  int taken = 1;  // the ellipsis
  for (size_t at = 0; at < text.size();) {
    if (const size_t escape = escape_size(text, at)) {
      out += text.substr(at, escape);
      painted = text.substr(at, escape) != "\x1b[0m";
      at += escape;
      continue;
    }
    const CodePoint point = read_utf8(text, at);
    taken += width_of(point.value);
    if (taken > width) break;
    out += text.substr(at, point.size);
    at += point.size;
  }
  if (width > 0) out += "…";
  if (painted) out += "\x1b[0m";
  return out;
}

TextTable::TextTable(std::vector<std::string> header, std::vector<Align> align)
    : align_(std::move(align)) {
  align_.resize(header.size(), Align::kLeft);
  rows_.push_back(std::move(header));
}

void TextTable::add(std::vector<std::string> cells) {
  XRUN_CHECK(cells.size() <= align_.size(), "a row of {} cells in a table of {} columns",
             cells.size(), align_.size());
  cells.resize(align_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(int width) const {
  std::vector<int> widths(align_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  const int columns = static_cast<int>(widths.size());
  const int total = std::accumulate(widths.begin(), widths.end(), kGap * (columns - 1));
  if (width > 0 && total > width) {
    size_t widest = widths.size();
    for (size_t c = 0; c < widths.size(); ++c) {
      if (align_[c] != Align::kLeft) continue;
      if (widest == widths.size() || widths[c] > widths[widest]) widest = c;
    }
    if (widest < widths.size()) {
      const int narrowest = std::min(widths[widest], kNarrowest);
      widths[widest] = std::max(narrowest, widths[widest] - (total - width));
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string cell = cut_to_width(row[c], widths[c]);
      const std::string blanks(static_cast<size_t>(widths[c] - display_width(cell)), ' ');
      if (c > 0) line.append(kGap, ' ');
      line += align_[c] == Align::kLeft ? cell + blanks : blanks + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace xrun
