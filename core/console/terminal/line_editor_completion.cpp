// Tab goes as far as all ways agree and shows them; further Tabs try one after the other.

#include <fmt/core.h>

#include <algorithm>

#include "core/base/utf8.h"
#include "core/console/terminal/line_editor.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr int kMostRows = 8;
constexpr int kWidestCell = 28;  // longer ways are cut where they stand in columns

std::string agreed_beginning(const std::vector<Completion>& ways) {
  std::string beginning = ways.front().text;
  for (const Completion& way : ways) {
    const auto [differs, unused] =
        std::mismatch(beginning.begin(), beginning.end(), way.text.begin(), way.text.end());
    beginning.erase(differs, beginning.end());
  }
  // Ways may part within a character.
  const auto cuts = [&](const Completion& way) {
    return beginning.size() < way.text.size() && is_continuation(way.text[beginning.size()]);
  };
  while (!beginning.empty() && std::any_of(ways.begin(), ways.end(), cuts)) beginning.pop_back();
  return beginning;
}

}  // namespace

void LineEditor::end_completion() { completing_ = false; }

void LineEditor::choose(size_t way) {
  chosen_ = way;
  buffer_.replace_before(completions_.begin, completions_.ways[way].text);
}

void LineEditor::complete(bool backward) {
  if (completing_) {
    const size_t count = completions_.ways.size();
    if (chosen_ >= count) return choose(backward ? count - 1 : 0);
    return choose((chosen_ + (backward ? count - 1 : 1)) % count);
  }
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  const std::string_view before =
      std::string_view(buffer_.text()).substr(begin, buffer_.cursor() - begin);
  if (before.find_first_not_of(" \t") == before.npos && !buffer_.text().empty()) {
    return buffer_.insert("  ");
  }
  if (!settings_.complete) return;
  completions_ = settings_.complete(buffer_.text(), buffer_.cursor());
  if (completions_.ways.empty()) return;
  const std::string agreed = agreed_beginning(completions_.ways);
  if (agreed.size() > buffer_.cursor() - completions_.begin || completions_.ways.size() == 1) {
    buffer_.replace_before(completions_.begin, agreed);
  }
  chosen_ = completions_.ways.size();
  completing_ = completions_.ways.size() > 1;
}

std::string LineEditor::way_cell(int way, int width) const {
  const std::string cell = pad_to_width(completions_.ways[static_cast<size_t>(way)].text, width);
  return static_cast<size_t>(way) == chosen_ ? "\x1b[7m" + cell + "\x1b[0m" : cell;
}

// Columns, read downwards; with few ways each has its hint beside it.
std::vector<std::string> LineEditor::ways_shown(const ScreenSize& size) const {
  const auto& ways = completions_.ways;
  const int count = static_cast<int>(ways.size());
  int widest = 0;
  for (const Completion& way : ways) widest = std::max(widest, text_width(way.text));
  const int most_rows = std::max(1, std::min(kMostRows, size.rows - 4));
  std::vector<std::string> rows;
  if (count <= most_rows) {
    for (int i = 0; i < count; ++i) {
      const std::string& hint = ways[static_cast<size_t>(i)].hint;
      rows.push_back(way_cell(i, widest) + (hint.empty() ? "" : "  " + hint));
    }
    return rows;
  }
  widest = std::min(widest, kWidestCell);
  const int columns = std::max(1, (size.columns + 2) / (widest + 2));
  const int all_rows = (count + columns - 1) / columns;
  const int shown_rows = std::min(all_rows, most_rows);
  // The page of rows that holds the chosen way.
  const int page = chosen_ < ways.size() ? static_cast<int>(chosen_) / (shown_rows * columns) : 0;
  const int first = page * shown_rows * columns;
  for (int row = 0; row < shown_rows; ++row) {
    std::string line;
    for (int column = 0; column < columns; ++column) {
      const int way = first + column * shown_rows + row;
      if (way >= count) continue;
      line += (column > 0 ? "  " : "") + way_cell(way, widest);
    }
    rows.push_back(line);
  }
  const int last = std::min(count, first + shown_rows * columns);
  if (last - first < count) {
    rows.push_back(fmt::format("{} to {} of {}; Tab shows more", first + 1, last, count));
  }
  return rows;
}

}  // namespace xrun
