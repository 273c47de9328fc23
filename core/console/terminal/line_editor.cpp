// A key goes to the history search, then to completion, then to editing. A search or completion
// that does not use the key ends and passes it on.

#include "core/console/terminal/line_editor.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/config/lua_source.h"

namespace xrun {

namespace {

constexpr std::string_view kIndent = "  ";
constexpr size_t kBeforeOldest = SIZE_MAX;  // find_newer begins at the next index, which is 0

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
  if (key.kind == KeyKind::kTab || key.kind == KeyKind::kBackTab) {
    complete(key.kind == KeyKind::kBackTab);
    return EditorRequest::kNone;
  }
  // Any other key ends the completion; the chosen candidate stays in the line.
  const bool chosen = completing_;
  end_completion();
  switch (key.kind) {
    case KeyKind::kText: type(key.text); break;
    case KeyKind::kPaste: buffer_.insert(key.text); break;
    case KeyKind::kEnter:
      // The first Enter takes the chosen candidate, the next one ends the line.
      return chosen && chosen_ != completions_.candidates.size() ? EditorRequest::kNone : enter();
    case KeyKind::kBackspace: buffer_.backspace(); break;
    case KeyKind::kDelete: buffer_.erase(); break;
    case KeyKind::kLeft: buffer_.left(); break;
    case KeyKind::kRight: buffer_.right(); break;
    case KeyKind::kUp: go_older(true); break;
    case KeyKind::kDown: go_newer(true); break;
    case KeyKind::kHome: buffer_.line_home(); break;
    case KeyKind::kEnd: buffer_.line_end(); break;
    case KeyKind::kWordLeft: buffer_.word_left(); break;
    case KeyKind::kWordRight: buffer_.word_right(); break;
    case KeyKind::kControl: return press_control(key.text[0]);
    case KeyKind::kAlt: press_alt(key.text); break;
    default: break;
  }
  return EditorRequest::kNone;
}

// The keys are those of Emacs and readline.
EditorRequest LineEditor::press_control(char letter) {
  switch (letter) {
    case 'a': buffer_.line_home(); break;
    case 'b': buffer_.left(); break;
    case 'c': return EditorRequest::kCancel;
    case 'd':
      // Ctrl-D ends the prompt at an empty input and deletes otherwise, as in shells. At the end of
      // an unfinished input there is nothing to delete.
      if (buffer_.text().empty()) return EditorRequest::kEnd;
      if (is_unfinished()) return EditorRequest::kAccept;
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

// Starts a line with the indent of the current one, or a deeper one if that opens a block.
void LineEditor::begin_line() {
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  const std::string_view line =
      std::string_view(buffer_.text()).substr(begin, buffer_.cursor() - begin);
  std::string next = "\n" + std::string(indent_of(line));
  if (opens_block(line)) next += kIndent;
  buffer_.insert(next);
}

// Moves a closing word, such as `end`, that was typed at the indent of its block one level to the
// left.
void LineEditor::dedent_closing_word() {
  const std::string& text = buffer_.text();
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  // The word must be the whole line, and not the first one.
  if (begin == 0 || buffer_.cursor() != buffer_.line_end_at(begin)) return;
  const std::string_view line = std::string_view(text).substr(begin);
  const std::string_view word = trimmed(line.substr(0, buffer_.cursor() - begin));
  if (!closes(word)) return;
  const size_t above = buffer_.line_begin(begin - 1);
  const std::string_view line_above = std::string_view(text).substr(above, begin - 1 - above);
  const std::string_view indent = indent_of(line);
  // Leaves an indent that the user has changed.
  const size_t expected =
      indent_of(line_above).size() + (opens_block(line_above) ? kIndent.size() : 0);
  if (indent.size() != expected || indent.size() < kIndent.size()) return;
  buffer_.replace_before(begin, std::string(indent.substr(kIndent.size())) + std::string(word));
}

// Returns true if the cursor is at the end of an input that wants more.
bool LineEditor::is_unfinished() const {
  return buffer_.cursor() == buffer_.text().size() && settings_.wants_more &&
         settings_.wants_more(buffer_.text());
}

// Blank lines end an unfinished input, because a user who cannot leave it keeps pressing Enter.
bool LineEditor::ends_with_blank_lines() const {
  const std::string& text = buffer_.text();
  const size_t begin = buffer_.line_begin(text.size());
  if (buffer_.cursor() != text.size() || begin == 0) return false;
  const size_t above = buffer_.line_begin(begin - 1);
  return above > 0 && trimmed(std::string_view(text).substr(above)).empty();
}

EditorRequest LineEditor::enter() {
  if (settings_.wants_more && settings_.wants_more(buffer_.text()) && !ends_with_blank_lines()) {
    begin_line();
    return EditorRequest::kNone;
  }
  return EditorRequest::kAccept;
}

ScreenText LineEditor::shown(const ScreenSize& size, bool last) const {
  // After the last draw the cursor stays at the end of the text.
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

void LineEditor::show_input(size_t index) {
  index_ = index;
  // The index after the last stands for the input that was being typed.
  buffer_.set(index == history_.inputs().size() ? left_ : history_.inputs()[index]);
}

// Shows only inputs that begin with the text typed so far.
void LineEditor::go_older(bool by_line) {
  if (by_line && buffer_.up()) return;
  // Saves the typed text, which comes back after the newest input.
  if (index_ == history_.inputs().size()) {
    left_ = buffer_.text();
    const bool at_end = buffer_.cursor() == buffer_.text().size();
    // With several lines, or the cursor inside the text, any input matches.
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
  index_before_search_ = index_;
  // As with Up, Down comes back to the input that is being typed.
  if (index_ == history_.inputs().size()) {
    left_ = buffer_.text();
    beginning_.clear();
  }
}

void LineEditor::end_search(bool keep) {
  search_ = HistorySearch::kNone;
  if (!keep) {
    buffer_.set(before_search_, cursor_before_search_);
    index_ = index_before_search_;
  }
}

void LineEditor::search_from(size_t index) {
  const auto found = search_ == HistorySearch::kOlder ? history_.find_older(index, query_, false)
                                                      : history_.find_newer(index, query_, false);
  found_ = found.has_value();
  if (!found) return;
  show_input(*found);
  // Moves the cursor to the match.
  const size_t at = buffer_.text().find(query_);
  buffer_.set(buffer_.text(), at);
}

bool LineEditor::press_in_search(const Key& key) {
  const size_t newest = history_.inputs().size();
  switch (key.kind) {
    case KeyKind::kText:
      query_ += key.text;
      // Begins with the input that is shown, which may contain the longer text too.
      search_from(search_ == HistorySearch::kOlder ? std::min(index_ + 1, newest)
                  : index_ > 0                     ? index_ - 1
                                                   : kBeforeOldest);
      return true;
    case KeyKind::kBackspace:
      // Removes a whole character, not a byte.
      while (!query_.empty() && is_continuation(query_.back())) query_.pop_back();
      if (!query_.empty()) query_.pop_back();
      // The shorter text may match a newer input, so the search starts over.
      search_from(search_ == HistorySearch::kOlder ? newest : kBeforeOldest);
      return true;
    case KeyKind::kControl:
      if (key.text == "r" || key.text == "s") {
        search_ = key.text == "r" ? HistorySearch::kOlder : HistorySearch::kNewer;
        search_from(index_);
        return true;
      }
      // Ctrl-G and Ctrl-C restore the input from before the search; any other control takes the
      // found input and has its usual effect.
      end_search(key.text != "g" && key.text != "c");
      return key.text == "g" || key.text == "c";
    case KeyKind::kEscape: end_search(true); return true;
    default: end_search(true); return false;
  }
}

}  // namespace xrun
