// Another thread may receive a signal, which then does not end the wait here. EditedLines is woken
// by a pipe; PlainLines polls in short waits and checks the interrupt flag between them.

#include "core/console/terminal/input_lines.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "core/base/interrupt.h"
#include "core/console/terminal/console.h"

namespace xrun {

namespace {

constexpr const char* kClearScreen = "\x1b[H\x1b[2J";

// Returns true if standard input and output are a terminal that can move its cursor.
bool can_edit() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0 && term != nullptr &&
         *term != '\0' && std::string_view(term) != "dumb";
}

// Returns true if a signal that ends the process is pending. At the prompt Ctrl-C does not: it only
// clears the line.
bool stopped() {
  clear_interrupt(SIGINT);
  return interrupt_requested();
}

}  // namespace

EditedLines::EditedLines(int in, int out, EditorSettings settings, History& history)
    : terminal_(in, out), editor_(std::move(settings), history) {}

void EditedLines::draw(bool last) {
  const ScreenSize size = terminal_.size();
  terminal_.write(painter_.paint(lay_out(editor_.shown(size, last), size), size));
}

// Returns true if the input has ended; `outcome` is then set.
bool EditedLines::apply(EditorRequest request, Outcome* outcome) {
  switch (request) {
    case EditorRequest::kAccept: *outcome = Outcome::kInput; return true;
    case EditorRequest::kEnd: *outcome = Outcome::kEnd; return true;
    case EditorRequest::kCancel: {
      // As in shells, the cancelled text stays on the screen.
      draw(true);
      terminal_.write("^C" + painter_.finish());
      editor_.reset();
      return false;
    }
    case EditorRequest::kSuspend:
      terminal_.write(painter_.finish());
      terminal_.suspend();
      return false;
    case EditorRequest::kClear:
      terminal_.write(kClearScreen);
      // The rows to which the painter would return are gone.
      painter_.forget();
      return false;
    case EditorRequest::kNone: return false;
  }
  return false;
}

// Reads the keys that were pressed while an input ran. The terminal was in line mode then, which
// turns Ctrl-D into a zero byte.
void EditedLines::read_typed_ahead() {
  std::string bytes;
  TerminalInput::Event got;
  do {
    got = terminal_.read(bytes, 0);
  } while (got != TerminalInput::Event::kTimeout && got != TerminalInput::Event::kEnd);
  std::replace(bytes.begin(), bytes.end(), '\0', '\x04');
  keys_.feed(bytes);
}

// Returns true if no more keys will come: the terminal is gone, or a signal ends the process.
bool EditedLines::wait_for_keys() {
  std::string bytes;
  switch (terminal_.read(bytes, keys_.patience_ms())) {
    case TerminalInput::Event::kBytes: keys_.feed(bytes); break;
    case TerminalInput::Event::kTimeout: keys_.give_up(); break;
    case TerminalInput::Event::kResized: break;
    case TerminalInput::Event::kContinued:
      // The shell has used the terminal meanwhile: sets raw mode again and starts on a new line.
      terminal_.leave();
      terminal_.enter();
      terminal_.write(painter_.begin_line(terminal_.size()));
      break;
    case TerminalInput::Event::kWoken: return stopped();
    case TerminalInput::Event::kEnd: return true;
  }
  return false;
}

InputLines::Outcome EditedLines::next(std::string& input) {
  editor_.reset();
  // Raw mode ends with the input: recipes run in the terminal's own mode.
  terminal_.enter();
  terminal_.write(painter_.begin_line(terminal_.size()));
  read_typed_ahead();
  Outcome outcome = Outcome::kEnd;
  bool over = stopped();
  if (over) outcome = Outcome::kStopped;
  while (!over) {
    const std::optional<Key> key = keys_.next();
    if (key) {
      over = apply(editor_.press(*key), &outcome);
    } else {
      // Draws only when no key is waiting: once after a paste, not once per character.
      draw();
      over = wait_for_keys();
      if (over && interrupt_requested()) outcome = Outcome::kStopped;
    }
  }
  draw(true);
  terminal_.write(painter_.finish());
  terminal_.leave();
  input = editor_.text();
  return outcome;
}

PlainLines::PlainLines(int in, std::function<bool(std::string_view)> wants_more,
                       std::function<void(bool)> ask)
    : in_(in), wants_more_(std::move(wants_more)), ask_(std::move(ask)) {}

PlainLines::Line PlainLines::read_line(std::string& line) {
  while (true) {
    const size_t end = read_.find('\n');
    // The last line may lack its line end.
    if (end != std::string::npos || (ended_ && !read_.empty())) {
      const size_t size = std::min(end, read_.size());
      line = read_.substr(0, size);
      // + 1 takes the line end; erase stops at the end of the text.
      read_.erase(0, size + 1);
      if (line.ends_with('\r')) line.pop_back();
      ++lines_;
      return Line::kLine;
    }
    if (ended_) return Line::kEnd;
    if (interrupt_requested()) return Line::kInterrupted;
    pollfd waits{in_, POLLIN, 0};
    if (::poll(&waits, 1, 100) <= 0) continue;
    char bytes[1 << 14];
    const ssize_t n = ::read(in_, bytes, sizeof bytes);
    if (n > 0) {
      read_.append(bytes, static_cast<size_t>(n));
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      ended_ = true;
    }
  }
}

InputLines::Outcome PlainLines::next(std::string& input) {
  input.clear();
  bool begun = false;
  while (true) {
    if (ask_) ask_(begun);
    std::string line;
    const Line got = read_line(line);
    // Ctrl-C drops the lines of an unfinished input.
    if (got == Line::kInterrupted) {
      if (stopped()) return Outcome::kStopped;
      input.clear();
      begun = false;
      continue;
    }
    if (got == Line::kEnd) {
      if (ask_) write_through(stdout, "\n");  // ends the line of the prompt
      return begun ? Outcome::kInput : Outcome::kEnd;
    }
    if (!begun) first_line_ = lines_;
    input += (begun ? "\n" : "") + line;
    begun = true;
    if (!wants_more_ || !wants_more_(input)) return Outcome::kInput;
  }
}

std::unique_ptr<InputLines> terminal_lines(EditorSettings settings, History& history) {
  if (can_edit()) {
    return std::make_unique<EditedLines>(STDIN_FILENO, STDOUT_FILENO, std::move(settings), history);
  }
  const auto ask = [prompt = settings.prompt, further = settings.more](bool more) {
    write_through(stdout, more ? further : prompt);
  };
  return std::make_unique<PlainLines>(STDIN_FILENO, std::move(settings.wants_more), ask);
}

}  // namespace xrun
