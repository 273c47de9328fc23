// Widths are display columns (text_width.h), never bytes.

#include "core/console/terminal/table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr int kGap = 2;  // columns between cells

// A stage of cutting: the columns that it leaves, and whether it also cuts numbers.
struct Floor {
  int columns;
  bool numbers;
};
// Cuts text down to 8 columns, then to 3, then every cell down to 1.
constexpr Floor kFloors[] = {{8, false}, {3, false}, {1, true}};

// Returns the columns of a line; a column without text has no gap.
int line_columns(const std::vector<int>& widths) {
  int total = 0;
  for (const int columns : widths) total += columns > 0 ? columns + kGap : 0;
  return std::max(0, total - kGap);
}

// Narrows the widest column by one until a line fits or no column can be narrowed.
void narrow(std::vector<int>& widths, const std::vector<Align>& align, int width) {
  int over = line_columns(widths) - width;
  for (const Floor& floor : kFloors) {
    while (over > 0) {
      size_t widest = widths.size();  // that may be cut; widths.size(): none
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

namespace {

constexpr int kWordGap = 2;
constexpr int kNarrowestMeaning = 30;  // columns of meaning beside a name

// Returns the bytes of a too wide word that go on this line; a path is split after a folder.
size_t piece_size(std::string_view word, int columns) {
  // At least one character, or the caller would never end.
  const size_t most = std::max(fitting_size(word, columns), text_character(word, 0).size);
  const size_t slash = word.substr(0, most).rfind('/');
  // Splits only after a slash in the second half, so that no piece is short.
  return slash != word.npos && 2 * slash > most ? slash + 1 : most;
}

}  // namespace

std::vector<std::string> broken_lines(std::string_view text, int width, WideWord wide) {
  width = std::max(1, width);
  std::vector<std::string> lines(1);
  int used = 0;        // columns of the last line
  bool begun = false;  // the last line has a word
  const auto next_line = [&] {
    lines.back().erase(lines.back().find_last_not_of(' ') + 1);
    lines.emplace_back();
    used = 0;
    begun = false;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    std::string_view word = text.substr(at, end - at);
    int columns = text_width(word);
    if (begun && used + 1 + columns > width) next_line();
    if (begun) {
      lines.back() += ' ';
      ++used;
    }
    const bool whole = wide == WideWord::kPathOverflows && word.find('/') != word.npos;
    while (!whole && used + columns > width && !word.empty()) {  // wider than a line
      const size_t size = piece_size(word, width - used);
      lines.back() += word.substr(0, size);
      columns -= text_width(word.substr(0, size));
      word.remove_prefix(size);
      if (!word.empty()) next_line();
    }
    lines.back() += word;
    used += columns;
    begun = true;
    at = end + 1;
  }
  return lines;
}

std::string word_list(const std::vector<std::pair<std::string, std::string>>& words, int width) {
  int widest = 0;
  for (const auto& [name, meaning] : words) widest = std::max(widest, text_width(name));
  const bool beside = widest + kWordGap + kNarrowestMeaning <= width;
  const int indent = beside ? widest + kWordGap : kWordGap;
  std::string out;
  for (const auto& [name, meaning] : words) {
    out += beside ? pad_to_width(name, indent) : name + "\n";
    bool first = beside;
    for (const std::string& line : broken_lines(meaning, std::max(1, width - indent))) {
      out += (first ? "" : std::string(static_cast<size_t>(indent), ' ')) + line + "\n";
      first = false;
    }
  }
  return out;
}

std::string bar_line(std::span<const int64_t> counts) {
  constexpr std::array kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  int64_t most = 1;  // not 0, which divides below
  for (const int64_t count : counts) most = std::max(most, count);
  std::string out;
  for (const int64_t count : counts) {
    // Zero is a blank; any other count shows at least the lowest bar.
    const auto eighth = static_cast<size_t>(
        static_cast<double>(count) / static_cast<double>(most) * (kBars.size() - 1) + 0.5);
    out += count <= 0 ? " " : kBars[std::min(eighth, kBars.size() - 1)];
  }
  return out;
}

double quantile(std::vector<double> values, double share) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return NAN;
  // Rounds down, to the lower of two neighbours.
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

}  // namespace xrun
