#pragma once
// Output for people: lines that stay, and below them one status line that is redrawn.

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace xrun {

enum class ColorDepth { kNone, k16, k256 };

// The abilities of an output.
struct ConsoleTraits {
  bool terminal = false;                  // it can redraw a status line
  ColorDepth colors = ColorDepth::kNone;  // kNone with NO_COLOR and TERM=dumb
  int width = 80;                         // columns, at least 1

  bool color() const { return colors != ColorDepth::kNone; }
};

// Returns the traits of a file descriptor, from the terminal, NO_COLOR, TERM and COLORTERM. The
// width is COLUMNS, else the window's, else 80; implausible values are ignored.
ConsoleTraits console_traits(int fd);

// Returns the colours that TERM and COLORTERM promise: at least 16.
ColorDepth terminal_colors();

// Writes all of `text` to a stream without its buffer. Unlike stdio, where an EINTR sets the error
// flag and loses the buffer, it continues after a signal. Any other failure sets the error flag.
void write_through(std::FILE* stream, std::string_view text);

// Prints lines above a status line. All output goes through `sink`. Not thread-safe.
class Console {
 public:
  using Sink = std::function<void(std::string_view)>;
  Console(Sink sink, ConsoleTraits traits) : sink_(std::move(sink)), traits_(traits) {}

  const ConsoleTraits& traits() const { return traits_; }
  // Writes one or more lines unchanged, escape sequences included, and adds a missing last newline.
  // A status line is cleared first and drawn again below. Names and contents of files must have
  // passed shown_text.
  void print_raw(std::string_view text);
  // Likewise for any text, which passes shown_text here.
  void print_escaped(std::string_view text);
  // Replaces the status line, cut to the width; "" clears it. Does nothing unless on a terminal.
  void set_status(std::string_view text);
  // Return the text painted, or unchanged if the output has no colours.
  std::string bold(std::string_view text) const;
  std::string dim(std::string_view text) const;
  std::string red(std::string_view text) const;

 private:
  std::string paint(const char* code, std::string_view text) const;

  Sink sink_;
  ConsoleTraits traits_;
  std::string status_;
};

}  // namespace xrun
