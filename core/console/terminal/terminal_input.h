#pragma once
// Reads a terminal key by key, in raw mode while an input is edited and in its own mode otherwise.

#include <termios.h>

#include <string>

#include "core/console/terminal/screen_image.h"

namespace xrun {

// Owns the mode of a terminal, not its descriptors. At most one per process, because it handles
// signals.
class TerminalInput {
 public:
  enum class Event {
    kBytes,
    kTimeout,
    kResized,
    kContinued,  // the process was stopped and goes on: redraw the screen
    kWoken,      // wake() was called
    kEnd,        // the terminal is gone
  };

  // `in` and `out` are file descriptors of terminals.
  TerminalInput(int in, int out);
  ~TerminalInput();  // calls leave()
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  // Enters raw mode: keys arrive at once and without echo, Ctrl-C as a byte; pastes are bracketed.
  // Does nothing in raw mode. Throws Error if the terminal refuses.
  void enter();
  // Restores the mode that enter() found. Does nothing outside raw mode.
  void leave() noexcept;

  // Waits for an event, at most `timeout_ms` (-1: no limit); appends the bytes of kBytes.
  Event read(std::string& bytes, int timeout_ms);
  void write(const std::string& bytes);
  ScreenSize size() const;
  // Stops the process group as Ctrl-Z does outside raw mode; returns in raw mode when continued.
  void suspend();

  // Ends a wait in read(). Async-signal-safe.
  static void wake() noexcept;

 private:
  int in_, out_;
  bool raw_ = false;
  termios before_{};
};

}  // namespace xrun
