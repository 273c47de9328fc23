#pragma once
// A line editor as a state machine from keys to screen contents, independent of any terminal.
//
// Enter ends a complete input and begins another line of an incomplete one; two blank lines or
// Ctrl-D end that too. Tab completes; Up and Down go through the lines of an input, then the
// history; Ctrl-R searches the history.

#include <functional>
#include <string>
#include <string_view>

#include "core/console/terminal/edit_buffer.h"
#include "core/console/terminal/history.h"
#include "core/console/terminal/key_reader.h"
#include "core/console/terminal/screen_image.h"

namespace xrun {

// A candidate: `text` replaces the word before the cursor; `hint`, a signature or a type, is shown
// beside it.
struct Completion {
  std::string text, hint;
};

// Sorted candidates, and the byte offset of the word before the cursor.
struct Completions {
  size_t begin = 0;
  std::vector<Completion> candidates;
};

struct EditorSettings {
  std::string prompt = "> ", more = ". ";
  std::function<bool(std::string_view)> wants_more = {};               // empty: never
  std::function<Completions(std::string_view, size_t)> complete = {};  // empty: none
};

// A request to the owner of the editor after a key.
enum class EditorRequest {
  kNone,     // go on; the screen may have changed
  kAccept,   // take the input, which has ended
  kCancel,   // Ctrl-C: discard the input
  kEnd,      // Ctrl-D on an empty input: end the prompt
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
  // Returns the screen contents; with `last`, those that stay when the input is over.
  ScreenText shown(const ScreenSize& size, bool last = false) const;

 private:
  enum class HistorySearch { kNone, kOlder, kNewer };
  EditorRequest press_control(char letter);
  void press_alt(const std::string& text);
  bool is_unfinished() const;
  bool ends_with_blank_lines() const;
  EditorRequest enter();
  void type(std::string_view text);
  void begin_line();
  void dedent_closing_word();

  void go_older(bool by_line);
  void go_newer(bool by_line);
  void show_input(size_t index);
  void begin_search(HistorySearch direction);
  bool press_in_search(const Key& key);  // false: the key ends the search and keeps its effect
  void search_from(size_t index);
  void end_search(bool keep);

  void complete(bool backward);
  void choose(size_t candidate);
  void end_completion();
  std::string candidate_cell(int candidate, int width) const;  // the chosen one is reversed
  std::vector<std::string> candidate_rows(const ScreenSize& size) const;

  EditorSettings settings_;
  History& history_;
  EditBuffer buffer_;

  // In the history: the index of the input shown, the prefix that inputs must have, and the input
  // that was being typed.
  size_t index_ = 0;
  std::string beginning_, left_;

  HistorySearch search_ = HistorySearch::kNone;
  std::string query_;
  bool found_ = true;
  std::string before_search_;
  size_t cursor_before_search_ = 0, index_before_search_ = 0;

  bool completing_ = false;
  Completions completions_;
  size_t chosen_ = 0;  // index of a candidate; candidates.size(): none yet
};

}  // namespace xrun
