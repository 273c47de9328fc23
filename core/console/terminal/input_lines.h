#pragma once
// Inputs one by one: edited on a terminal, read by lines from anything else.

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "core/console/terminal/line_editor.h"
#include "core/console/terminal/terminal_input.h"

namespace xrun {

class InputLines {
 public:
  enum class Got {
    kInput,
    kEnd,      // Ctrl-D, or the end of a file
    kStopped,  // a signal that ends the process (interrupt_signal() is its number)
  };
  virtual ~InputLines() = default;
  // Waits for the next input, of one or more lines without the last line end.
  virtual Got next(std::string& input) = 0;
  // The line of its file on which the last input began, from 1; 0 for a terminal's.
  virtual int first_line() const { return 0; }
};

// An editor on a terminal, which is in raw mode within next() alone. Ctrl-C forgets what was typed.
class EditedLines : public InputLines {
 public:
  // `history` outlives this.
  EditedLines(int in, int out, EditorSettings settings, History& history);
  Got next(std::string& input) override;

 private:
  void draw(bool last = false);
  void read_typed_ahead();
  bool wait_for_keys();
  bool obey(EditorRequest request, Got* got);

  TerminalInput terminal_;
  LineEditor editor_;
  KeyReader keys_;
  ScreenPainter painter_;
};

// Lines of a descriptor: a pipe, a file, or a terminal that cannot move its cursor. An input takes
// lines until it wants no more, or until the end.
class PlainLines : public InputLines {
 public:
  // `ask` is called before each line with whether it goes on an input; empty: nobody is asked.
  PlainLines(int in, std::function<bool(std::string_view)> wants_more,
             std::function<void(bool more)> ask = {});
  Got next(std::string& input) override;
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

}  // namespace xrun
