// A key goes to the history search, then to completion, then to editing. A mode that does not use
// the key ends and passes it on.

#include "core/console/terminal/line_editor.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/config/lua_source.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

using Kind = Key::Kind;

constexpr std::string_view kIndent = "  ";

std::string_view indent_of(std::string_view line) {
  return line.substr(0, std::min(line.find_first_not_of(" \t"), line.size()));
}

bool closes(std::string_view word) {
  constexpr std::array kWords = {"end", "else", "elseif", "until", "}", ")", "})", "end)"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace

LineEditor::LineEditor(EditorSettings settings, History& history)
    : settings_(std::move(settings)), history_(history) {
  reset();
}

void LineEditor::reset() {
  buffer_.set("");
  index_ = history_.inputs().size();
  beginning_.clear();
  left_.clear();
  search_ = HistorySearch::kNone;
  end_completion();
}

EditorRequest LineEditor::press(const Key& key) {
  if (search_ != HistorySearch::kNone && press_in_search(key)) return EditorRequest::kNone;
  if (key.kind == Kind::kTab || key.kind == Kind::kBackTab) {
    complete(key.kind == Kind::kBackTab);
    return EditorRequest::kNone;
  }
  // Any other key ends the completion, with the chosen candidate in the line.
  const bool chosen = completing_;
  end_completion();
  switch (key.kind) {
    case Kind::kText: type(key.text); break;
    case Kind::kPaste: buffer_.insert(key.text); break;
    case Kind::kEnter:
      // The first Enter takes the chosen candidate, the next one ends the input.
      return chosen && chosen_ != completions_.candidates.size() ? EditorRequest::kNone : enter();
    case Kind::kBackspace: buffer_.backspace(); break;
    case Kind::kDelete: buffer_.erase(); break;
    case Kind::kLeft: buffer_.left(); break;
    case Kind::kRight: buffer_.right(); break;
    case Kind::kUp: go_older(true); break;
    case Kind::kDown: go_newer(true); break;
    case Kind::kHome: buffer_.line_home(); break;
    case Kind::kEnd: buffer_.line_end(); break;
    case Kind::kWordLeft: buffer_.word_left(); break;
    case Kind::kWordRight: buffer_.word_right(); break;
    case Kind::kControl: return press_control(key.text[0]);
    case Kind::kAlt: press_alt(key.text); break;
    default: break;
  }
  return EditorRequest::kNone;
}

// The keys of Emacs and readline.
EditorRequest LineEditor::press_control(char letter) {
  switch (letter) {
    case 'a': buffer_.line_home(); break;
    case 'b': buffer_.left(); break;
    case 'c': return EditorRequest::kCancel;
    case 'd':
      // Ctrl-D ends the prompt at an empty input and deletes otherwise, as in shells.
      if (buffer_.text().empty()) return EditorRequest::kEnd;
      buffer_.erase();
      break;
    case 'e': buffer_.line_end(); break;
    case 'f': buffer_.right(); break;
    case 'k': buffer_.kill_to_line_end(); break;
    case 'l': return EditorRequest::kClear;
    case 'n': go_newer(false); break;
    case 'p': go_older(false); break;
    case 'r': begin_search(HistorySearch::kOlder); break;
    case 's': begin_search(HistorySearch::kNewer); break;
    case 't': buffer_.swap_characters(); break;
    case 'u': buffer_.kill_to_line_begin(); break;
    case 'w': buffer_.kill_word_left(); break;
    case 'y': buffer_.yank(); break;
    case 'z': return EditorRequest::kSuspend;
    case '_': buffer_.undo(); break;
    default: break;
  }
  return EditorRequest::kNone;
}

void LineEditor::press_alt(const std::string& text) {
  if (text == "b") buffer_.word_left();
  if (text == "f") buffer_.word_right();
  if (text == "d") buffer_.kill_word_right();
  if (text == "backspace") buffer_.kill_part_left();
  if (text == "enter") begin_line();
}

void LineEditor::type(std::string_view text) {
  buffer_.insert(text);
  dedent_closing_word();
}

// Starts a line with this line's indent, and more after a line that opens a block.
void LineEditor::begin_line() {
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  const std::string_view line =
      std::string_view(buffer_.text()).substr(begin, buffer_.cursor() - begin);
  std::string next = "\n" + std::string(indent_of(line));
  if (opens_block(line)) next += kIndent;
  buffer_.insert(next);
}

// Moves an `end` typed at the indent of its block's lines one level to the left.
void LineEditor::dedent_closing_word() {
  const std::string& text = buffer_.text();
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  // Only where the word is all of its line.
  if (begin == 0 || buffer_.cursor() != buffer_.line_end_at(begin)) return;
  const std::string_view line = std::string_view(text).substr(begin);
  const std::string_view word = trimmed(line.substr(0, buffer_.cursor() - begin));
  if (!closes(word)) return;
  const size_t above = buffer_.line_begin(begin - 1);
  const std::string_view line_above = std::string_view(text).substr(above, begin - 1 - above);
  const std::string_view indent = indent_of(line);
  // An indent that the user has changed stays.
  const size_t expected =
      indent_of(line_above).size() + (opens_block(line_above) ? kIndent.size() : 0);
  if (indent.size() != expected || indent.size() < kIndent.size()) return;
  buffer_.replace_before(begin, std::string(indent.substr(kIndent.size())) + std::string(word));
}

EditorRequest LineEditor::enter() {
  if (settings_.wants_more && settings_.wants_more(buffer_.text())) {
    begin_line();
    return EditorRequest::kNone;
  }
  return EditorRequest::kAccept;
}

ScreenText LineEditor::shown(const ScreenSize& size, bool last) const {
  // After the last draw the cursor is after the text.
  ScreenText shown{buffer_.text(),
                   last ? buffer_.text().size() : buffer_.cursor(),
                   settings_.prompt,
                   settings_.more,
                   {}};
  if (last) return shown;
  if (search_ != HistorySearch::kNone) {
    shown.below.push_back((found_ ? "search: " : "no match: ") + query_);
  } else if (completing_) {
    shown.below = candidate_rows(size);
  }
  return shown;
}

// Up shows only inputs that begin with the text typed so far.
void LineEditor::show_input(size_t index) {
  index_ = index;
  // The end of the history is the input that is being typed.
  buffer_.set(index == history_.inputs().size() ? left_ : history_.inputs()[index]);
}

void LineEditor::go_older(bool by_line) {
  // Within an input of several lines first.
  if (by_line && buffer_.up()) return;
  // The text that was typed is kept, to come back after the newest input.
  if (index_ == history_.inputs().size()) {
    left_ = buffer_.text();
    const bool at_end = buffer_.cursor() == buffer_.text().size();
    // An input of several lines, or a cursor inside, searches nothing.
    beginning_ = at_end && left_.find('\n') == std::string::npos ? left_ : "";
  }
  if (const auto found = history_.find_older(index_, beginning_, true)) show_input(*found);
}

void LineEditor::go_newer(bool by_line) {
  if (by_line && buffer_.down()) return;
  if (index_ >= history_.inputs().size()) return;
  const auto found = history_.find_newer(index_, beginning_, true);
  show_input(found.value_or(history_.inputs().size()));
}

void LineEditor::begin_search(HistorySearch direction) {
  search_ = direction;
  query_.clear();
  found_ = true;
  before_search_ = buffer_.text();
  cursor_before_search_ = buffer_.cursor();
}

void LineEditor::end_search(bool keep) {
  search_ = HistorySearch::kNone;
  // Given up: the input is as it was before the search.
  if (!keep) {
    buffer_.set(before_search_, cursor_before_search_);
    index_ = history_.inputs().size();
  }
}

void LineEditor::search_from(size_t index) {
  const auto found = search_ == HistorySearch::kOlder ? history_.find_older(index, query_, false)
                                                      : history_.find_newer(index, query_, false);
  found_ = found.has_value();
  if (!found) return;
  show_input(*found);
  // The cursor goes to the match.
  const size_t at = buffer_.text().find(query_);
  buffer_.set(buffer_.text(), at);
}

bool LineEditor::press_in_search(const Key& key) {
  const size_t newest = history_.inputs().size();
  switch (key.kind) {
    case Key::Kind::kText:
      query_ += key.text;
      // The input that is shown may hold the longer text as well.
      search_from(search_ == HistorySearch::kOlder ? std::min(index_ + 1, newest)
                                                   : index_ - (index_ > 0 ? 1 : 0));
      return true;
    case Key::Kind::kBackspace:
      // A character, not a byte.
      while (!query_.empty() && is_continuation(query_.back())) query_.pop_back();
      if (!query_.empty()) query_.pop_back();
      // The shorter text may match a newer input, so the search starts over.
      search_from(search_ == HistorySearch::kOlder ? newest : 0);
      return true;
    case Key::Kind::kControl:
      if (key.text == "r" || key.text == "s") {
        search_ = key.text == "r" ? HistorySearch::kOlder : HistorySearch::kNewer;
        // The next match after the one shown.
        search_from(index_);
        return true;
      }
      // Ctrl-G and Ctrl-C give the search up; any other control takes the found input and is
      // handled as usual.
      end_search(key.text != "g" && key.text != "c");
      return key.text == "g" || key.text == "c";
    case Key::Kind::kEscape: end_search(true); return true;
    default: end_search(true); return false;
  }
}

namespace {

// Tab completes as far as all candidates agree and lists them; further Tabs choose one after
// another.
constexpr int kMostRows = 8;
constexpr int kWidestCell = 28;  // longer candidates are cut in columns

std::string common_completion_prefix(const std::vector<Completion>& candidates) {
  std::string beginning = candidates.front().text;
  for (const Completion& candidate : candidates) {
    const auto [differs, unused] = std::mismatch(beginning.begin(), beginning.end(),
                                                 candidate.text.begin(), candidate.text.end());
    beginning.erase(differs, beginning.end());
  }
  // Candidates may differ within a character.
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
    // Listed, but none chosen yet.
    if (chosen_ >= count) return choose(backward ? count - 1 : 0);
    return choose((chosen_ + (backward ? count - 1 : 1)) % count);
  }
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  const std::string_view before =
      std::string_view(buffer_.text()).substr(begin, buffer_.cursor() - begin);
  // Only blanks precede the cursor, so Tab indents.
  if (before.find_first_not_of(" \t") == before.npos && !buffer_.text().empty()) {
    return buffer_.insert("  ");
  }
  if (!settings_.complete) return;
  completions_ = settings_.complete(buffer_.text(), buffer_.cursor());
  if (completions_.candidates.empty()) return;
  const std::string agreed = common_completion_prefix(completions_.candidates);
  // Also if the candidates agree on nothing more: the single one may differ in its letters.
  if (agreed.size() > buffer_.cursor() - completions_.begin ||
      completions_.candidates.size() == 1) {
    buffer_.replace_before(completions_.begin, agreed);
  }
  // count: no candidate is chosen yet.
  chosen_ = completions_.candidates.size();
  completing_ = completions_.candidates.size() > 1;
}

std::string LineEditor::candidate_cell(int candidate, int width) const {
  const std::string cell =
      pad_to_width(completions_.candidates[static_cast<size_t>(candidate)].text, width);
  return static_cast<size_t>(candidate) == chosen_ ? "\x1b[7m" + cell + "\x1b[0m" : cell;
}

// Lists candidates in columns, read downwards; a few are listed with their hints.
std::vector<std::string> LineEditor::candidate_rows(const ScreenSize& size) const {
  const auto& candidates = completions_.candidates;
  const int count = static_cast<int>(candidates.size());
  int widest = 0;
  for (const Completion& candidate : candidates)
    widest = std::max(widest, text_width(candidate.text));
  // At least 4 rows are left for the input.
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
  // The page of rows that holds the chosen candidate.
  const int page =
      chosen_ < candidates.size() ? static_cast<int>(chosen_) / (shown_rows * columns) : 0;
  const int first = page * shown_rows * columns;
  for (int row = 0; row < shown_rows; ++row) {
    std::string line;
    for (int column = 0; column < columns; ++column) {
      // Downwards, then the next column.
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
