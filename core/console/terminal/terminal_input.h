#pragma once
// A terminal read key by key: raw mode while an input is edited, its own mode otherwise.

#include <termios.h>

#include <string>

#include "core/console/terminal/screen_image.h"

namespace xrun {

// Owns the modes of a terminal's descriptors, not the descriptors. One a process, as signals are.
class TerminalInput {
 public:
  enum class Got {
    kBytes,
    kTimeout,
    kResized,
    kContinued,  // the process had been stopped: the screen is to be drawn again
    kWoken,      // wake() was called: a signal that the caller knows of
    kEnd,        // the terminal is gone
  };

  // Both must be terminals.
  TerminalInput(int in, int out);
  ~TerminalInput();  // leaves
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  // Raw mode: each key at once, unechoed, signals' keys as bytes; pastes are bracketed. Throws
  // Error if the terminal refuses.
  void enter();
  // The mode that was found by enter(). Twice is harmless.
  void leave() noexcept;

  // Waits for what comes first, at most `timeout_ms` (-1: for ever), and appends bytes.
  Got read(std::string& bytes, int timeout_ms);
  void write(const std::string& bytes);
  ScreenSize size() const;
  // Stops the process as Ctrl-Z does outside of raw mode; returns when it is continued, in raw
  // mode.
  void suspend();

  // Ends a wait in read(). Async-signal-safe.
  static void wake() noexcept;

 private:
  int in_, out_;
  bool raw_ = false;
  termios before_{};
};

}  // namespace xrun
