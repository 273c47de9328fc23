#pragma once
// A line editor as a state machine: keys in, what the screen shows out. It knows no terminal.
//
// Enter ends an input that is whole, and begins another line of one that is not. Tab completes;
// Up and Down walk the lines of an input, then the history; Ctrl-R searches it.

#include <functional>
#include <string>
#include <string_view>

#include "core/console/terminal/completion.h"
#include "core/console/terminal/edit_buffer.h"
#include "core/console/terminal/history.h"
#include "core/console/terminal/key_reader.h"
#include "core/console/terminal/screen_image.h"

namespace xrun {

struct EditorSettings {
  std::string prompt = "> ", more = ". ";
  std::function<bool(std::string_view)> wants_more;               // empty: never
  std::function<Completions(std::string_view, size_t)> complete;  // empty: none
};

// What a key asks of the editor's owner.
enum class EditorRequest {
  kNone,     // go on; the screen may have changed
  kAccept,   // the input is whole: take it
  kCancel,   // Ctrl-C: forget it
  kEnd,      // Ctrl-D on an empty input
  kSuspend,  // Ctrl-Z
  kClear,    // Ctrl-L: clear the screen, then draw
};

class LineEditor {
 public:
  // `history` outlives the editor.
  LineEditor(EditorSettings settings, History& history);

  EditorRequest press(const Key& key);
  // Begins an empty input.
  void reset();
  const std::string& text() const { return buffer_.text(); }
  size_t cursor() const { return buffer_.cursor(); }
  // What the screen shows now; with `last` as it stays when the input is over.
  ScreenText shown(const ScreenSize& size, bool last = false) const;

 private:
  enum class Search { kNone, kOlder, kNewer };
  EditorRequest press_control(char letter);
  void press_alt(const std::string& text);
  EditorRequest enter();
  void type(std::string_view text);
  void begin_line();
  void pull_left_closing_word();

  // line_editor_history.cpp
  void go_older(bool by_line);
  void go_newer(bool by_line);
  void show_input(size_t index);
  void begin_search(Search direction);
  bool press_in_search(const Key& key);  // false: the key ends the search and counts for itself
  void search_from(size_t index);
  void end_search(bool keep);

  // line_editor_completion.cpp
  void complete(bool backward);
  void choose(size_t way);
  void end_completion();
  std::string way_cell(int way, int width) const;  // marked if it is the chosen one
  std::vector<std::string> ways_shown(const ScreenSize& size) const;

  EditorSettings settings_;
  History& history_;
  EditBuffer buffer_;

  // Walking the history: where, the text that inputs begin with, and the input that was left.
  size_t index_ = 0;
  std::string beginning_, left_;

  Search search_ = Search::kNone;
  std::string query_;
  bool found_ = true;
  std::string before_search_;
  size_t cursor_before_search_ = 0;

  bool completing_ = false;
  Completions completions_;
  size_t chosen_ = 0;  // ways.size(): none yet
};

}  // namespace xrun
