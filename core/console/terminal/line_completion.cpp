// The completion of a LineEditor. Tab completes as far as all candidates agree and lists them;
// further Tabs choose one after the other.

#include <fmt/core.h>

#include <algorithm>

#include "core/base/utf8.h"
#include "core/console/terminal/line_editor.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr int kMostRows = 8;
constexpr int kWidestCell = 28;  // wider candidates are cut, if listed in columns

std::string common_completion_prefix(const std::vector<Completion>& candidates) {
  std::string beginning = candidates.front().text;
  for (const Completion& candidate : candidates) {
    const auto [differs, unused] = std::mismatch(beginning.begin(), beginning.end(),
                                                 candidate.text.begin(), candidate.text.end());
    beginning.erase(differs, beginning.end());
  }
  // Candidates may differ inside a character, which must not be cut.
  const auto cuts = [&](const Completion& candidate) {
    return beginning.size() < candidate.text.size() &&
           is_continuation(candidate.text[beginning.size()]);
  };
  while (!beginning.empty() && std::any_of(candidates.begin(), candidates.end(), cuts))
    beginning.pop_back();
  return beginning;
}

}  // namespace

void LineEditor::end_completion() { completing_ = false; }

void LineEditor::choose(size_t candidate) {
  chosen_ = candidate;
  buffer_.replace_before(completions_.begin, completions_.candidates[candidate].text);
}

void LineEditor::complete(bool backward) {
  if (completing_) {
    const size_t count = completions_.candidates.size();
    if (chosen_ >= count) return choose(backward ? count - 1 : 0);
    return choose((chosen_ + (backward ? count - 1 : 1)) % count);
  }
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  const std::string_view before =
      std::string_view(buffer_.text()).substr(begin, buffer_.cursor() - begin);
  // Tab indents if only blanks precede the cursor.
  if (before.find_first_not_of(" \t") == before.npos && !buffer_.text().empty()) {
    return buffer_.insert("  ");
  }
  if (!settings_.complete) return;
  completions_ = settings_.complete(buffer_.text(), buffer_.cursor());
  if (completions_.candidates.empty()) return;
  const std::string agreed = common_completion_prefix(completions_.candidates);
  // A single candidate replaces the word even if it is not longer: its letters may differ from the
  // typed ones.
  if (agreed.size() > buffer_.cursor() - completions_.begin ||
      completions_.candidates.size() == 1) {
    buffer_.replace_before(completions_.begin, agreed);
  }
  chosen_ = completions_.candidates.size();
  completing_ = completions_.candidates.size() > 1;
}

std::string LineEditor::candidate_cell(int candidate, int width) const {
  const std::string cell =
      pad_to_width(completions_.candidates[static_cast<size_t>(candidate)].text, width);
  return static_cast<size_t>(candidate) == chosen_ ? "\x1b[7m" + cell + "\x1b[0m" : cell;
}

// Lists a few candidates with their hints, more of them in columns that are read downwards.
std::vector<std::string> LineEditor::candidate_rows(const ScreenSize& size) const {
  const auto& candidates = completions_.candidates;
  const int count = static_cast<int>(candidates.size());
  int widest = 0;
  for (const Completion& candidate : candidates)
    widest = std::max(widest, text_width(candidate.text));
  // Leaves at least 4 rows for the input.
  const int most_rows = std::max(1, std::min(kMostRows, size.rows - 4));
  std::vector<std::string> rows;
  if (count <= most_rows) {
    for (int i = 0; i < count; ++i) {
      const std::string& hint = candidates[static_cast<size_t>(i)].hint;
      rows.push_back(candidate_cell(i, widest) + (hint.empty() ? "" : "  " + hint));
    }
    return rows;
  }
  widest = std::min(widest, kWidestCell);
  const int columns = std::max(1, (size.columns + 2) / (widest + 2));
  const int all_rows = (count + columns - 1) / columns;
  const int shown_rows = std::min(all_rows, most_rows);
  // Shows the page that contains the chosen candidate.
  const int page =
      chosen_ < candidates.size() ? static_cast<int>(chosen_) / (shown_rows * columns) : 0;
  const int first = page * shown_rows * columns;
  for (int row = 0; row < shown_rows; ++row) {
    std::string line;
    for (int column = 0; column < columns; ++column) {
      const int candidate = first + column * shown_rows + row;
      if (candidate >= count) continue;
      line += (column > 0 ? "  " : "") + candidate_cell(candidate, widest);
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
