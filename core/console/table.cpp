#include "core/console/table.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/console/text_width.h"

namespace xrun {

namespace {

constexpr int kGap = 2;        // columns between cells
constexpr int kNarrowest = 8;  // a cut column keeps at least this much

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
  std::vector<int> widths(align_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], text_width(row[c]));
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
      const std::string blanks(static_cast<size_t>(widths[c] - text_width(cell)), ' ');
      if (c > 0) line.append(kGap, ' ');
      line += align_[c] == Align::kLeft ? cell + blanks : blanks + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace xrun
