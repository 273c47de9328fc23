#pragma once
// Reads inputs one by one, with an editor on a terminal and line by line from anything else.

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "core/console/terminal/line_editor.h"
#include "core/console/terminal/terminal_input.h"

namespace xrun {

class InputLines {
 public:
  enum class Outcome {
    kInput,
    kEnd,      // Ctrl-D, or the end of a file
    kStopped,  // by a signal that ends the process; interrupt_signal() is its number
  };
  virtual ~InputLines() = default;
  // Waits for the next input, of one or more lines without the last line end.
  virtual Outcome next(std::string& input) = 0;
  // Returns the line of the file on which the last input began, from 1; 0 on a terminal.
  virtual int first_line() const { return 0; }
};

// Inputs edited on a terminal, which is in raw mode only within next(). Ctrl-C discards the input.
class EditedLines : public InputLines {
 public:
  // `history` outlives this.
  EditedLines(int in, int out, EditorSettings settings, History& history);
  Outcome next(std::string& input) override;

 private:
  void draw(bool last = false);
  void read_typed_ahead();
  bool wait_for_keys();
  bool apply(EditorRequest request, Outcome* outcome);

  TerminalInput terminal_;
  LineEditor editor_;
  KeyReader keys_;
  ScreenPainter painter_;
};

// Inputs from a pipe, a file, or a terminal that cannot move its cursor. An input takes lines until
// `wants_more` returns false, or to the end.
class PlainLines : public InputLines {
 public:
  // `ask` prints the prompt of each line, `more` if the line continues an input; empty: no prompt.
  PlainLines(int in, std::function<bool(std::string_view)> wants_more,
             std::function<void(bool more)> ask = {});
  Outcome next(std::string& input) override;
  int first_line() const override { return ask_ ? 0 : first_line_; }

 private:
  enum class Line { kLine, kEnd, kInterrupted };
  Line read_line(std::string& line);

  int in_;
  std::function<bool(std::string_view)> wants_more_;
  std::function<void(bool)> ask_;
  std::string read_;
  bool ended_ = false;
  int lines_ = 0, first_line_ = 0;
};

// Returns the inputs of standard input, which is a terminal: EditedLines if it can move its cursor,
// else PlainLines with the prompts of `settings`. `history` outlives them.
std::unique_ptr<InputLines> terminal_lines(EditorSettings settings, History& history);

}  // namespace xrun
