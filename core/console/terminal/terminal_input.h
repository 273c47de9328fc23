#pragma once
// Reads a terminal key by key: raw mode while an input is edited, its previous mode otherwise.

#include <termios.h>

#include <string>

#include "core/console/terminal/screen_image.h"

namespace xrun {

// Owns the mode of a terminal, not its descriptors. One per process, because signals are.
class TerminalInput {
 public:
  enum class Event {
    kBytes,
    kTimeout,
    kResized,
    kContinued,  // the process had been stopped: redraw the screen
    kWoken,      // wake() was called
    kEnd,        // the terminal is gone
  };

  // `in` and `out` are file descriptors of terminals.
  TerminalInput(int in, int out);
  ~TerminalInput();  // leaves
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  // Enters raw mode: keys arrive at once, without echo, Ctrl-C as a byte; pastes are bracketed.
  // Throws Error if the terminal refuses.
  void enter();
  // Restores the mode that enter() found. May be called twice.
  void leave() noexcept;

  // Waits for the first event, at most `timeout_ms` (-1: no limit), and appends its bytes.
  Event read(std::string& bytes, int timeout_ms);
  void write(const std::string& bytes);
  ScreenSize size() const;
  // Stops the process as Ctrl-Z does outside raw mode; returns in raw mode when continued.
  void suspend();

  // Ends a wait in read(). Async-signal-safe.
  static void wake() noexcept;

 private:
  int in_, out_;
  bool raw_ = false;
  termios before_{};
};

}  // namespace xrun
