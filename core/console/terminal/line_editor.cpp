#include "core/console/terminal/line_editor.h"

#include <algorithm>
#include <array>

#include "core/base/trimmed.h"

namespace xrun {

namespace {

using Kind = Key::Kind;

constexpr std::string_view kIndent = "  ";

std::string_view indent_of(std::string_view line) {
  return line.substr(0, std::min(line.find_first_not_of(" \t"), line.size()));
}

// Whether the lines that follow stand deeper.
bool opens(std::string_view line) {
  line = trimmed(line);
  for (const std::string_view end : {"then", "do", "else", "repeat", "{", "("}) {
    if (line.ends_with(end)) return true;
  }
  const size_t function = line.rfind("function");
  return function != line.npos && line.ends_with(')') && line.find("end", function) == line.npos;
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
  search_ = Search::kNone;
  end_completion();
}

EditorRequest LineEditor::press(const Key& key) {
  if (search_ != Search::kNone && press_in_search(key)) return EditorRequest::kNone;
  if (key.kind == Kind::kTab || key.kind == Kind::kBackTab) {
    complete(key.kind == Kind::kBackTab);
    return EditorRequest::kNone;
  }
  const bool chosen = completing_;
  end_completion();
  switch (key.kind) {
    case Kind::kText: type(key.text); break;
    case Kind::kPaste: buffer_.insert(key.text); break;
    case Kind::kEnter:
      // Enter takes the way that was chosen; the next one ends the input.
      return chosen && chosen_ != completions_.ways.size() ? EditorRequest::kNone : enter();
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

EditorRequest LineEditor::press_control(char letter) {
  switch (letter) {
    case 'a': buffer_.line_home(); break;
    case 'b': buffer_.left(); break;
    case 'c': return EditorRequest::kCancel;
    case 'd':
      if (buffer_.text().empty()) return EditorRequest::kEnd;
      buffer_.erase();
      break;
    case 'e': buffer_.line_end(); break;
    case 'f': buffer_.right(); break;
    case 'k': buffer_.kill_to_line_end(); break;
    case 'l': return EditorRequest::kClear;
    case 'n': go_newer(false); break;
    case 'p': go_older(false); break;
    case 'r': begin_search(Search::kOlder); break;
    case 's': begin_search(Search::kNewer); break;
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
  pull_left_closing_word();
}

// The line's own indent, and more behind what opens a block.
void LineEditor::begin_line() {
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  const std::string_view line =
      std::string_view(buffer_.text()).substr(begin, buffer_.cursor() - begin);
  std::string next = "\n" + std::string(indent_of(line));
  if (opens(line)) next += kIndent;
  buffer_.insert(next);
}

// `end` that was typed where its block's lines stand goes to the left.
void LineEditor::pull_left_closing_word() {
  const std::string& text = buffer_.text();
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  if (begin == 0 || buffer_.cursor() != buffer_.line_end_at(begin)) return;
  const std::string_view line = std::string_view(text).substr(begin);
  const std::string_view word = trimmed(line.substr(0, buffer_.cursor() - begin));
  if (!closes(word)) return;
  const size_t above = buffer_.line_begin(begin - 1);
  const std::string_view line_above = std::string_view(text).substr(above, begin - 1 - above);
  const std::string_view indent = indent_of(line);
  const size_t expected = indent_of(line_above).size() + (opens(line_above) ? kIndent.size() : 0);
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
  ScreenText shown{buffer_.text(),
                   last ? buffer_.text().size() : buffer_.cursor(),
                   settings_.prompt,
                   settings_.more,
                   {}};
  if (last) return shown;
  if (search_ != Search::kNone) {
    shown.below.push_back((found_ ? "search: " : "nothing holds: ") + query_);
  } else if (completing_) {
    shown.below = ways_shown(size);
  }
  return shown;
}

}  // namespace xrun
