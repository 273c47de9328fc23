#include "core/console/terminal/table.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr int kGap = 2;  // columns between cells

// What a cut column keeps: first text alone is cut, numbers last.
struct Floor {
  int columns;
  bool numbers;
};
constexpr Floor kFloors[] = {{8, false}, {3, false}, {1, true}};

// Columns of a whole line; a column without any text has no gap either.
int line_columns(const std::vector<int>& widths) {
  int total = 0;
  for (const int columns : widths) total += columns > 0 ? columns + kGap : 0;
  return std::max(0, total - kGap);
}

// Takes columns from the widest until a line fits, or nothing can be taken.
void narrow(std::vector<int>& widths, const std::vector<Align>& align, int width) {
  int over = line_columns(widths) - width;
  for (const Floor& floor : kFloors) {
    while (over > 0) {
      size_t widest = widths.size();
      for (size_t c = 0; c < widths.size(); ++c) {
        if (widths[c] <= floor.columns || (align[c] == Align::kRight && !floor.numbers)) continue;
        if (widest == widths.size() || widths[c] > widths[widest]) widest = c;
      }
      if (widest == widths.size()) break;
      --widths[widest];
      --over;
    }
  }
}

}  // namespace

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
  if (rows_.size() == 1) return "";
  std::vector<int> widths(align_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], text_width(row[c]));
  }
  if (width > 0) narrow(widths, align_, width);
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths[c] == 0) continue;
      const std::string cell = cut_to_width(row[c], widths[c]);
      const std::string blanks(static_cast<size_t>(widths[c] - text_width(cell)), ' ');
      if (!line.empty()) line.append(kGap, ' ');
      line += align_[c] == Align::kLeft ? cell + blanks : blanks + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (width > 0 ? cut_to_width(line, width) : line) + '\n';
  }
  return out;
}

}  // namespace xrun
