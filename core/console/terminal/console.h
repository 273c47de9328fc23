#pragma once
// Where text for people goes: lines that stay, and one status line that is redrawn.

#include <functional>
#include <string>
#include <string_view>

namespace xrun {

enum class ColorDepth { kNone, k16, k256 };

// What a place can show.
struct ConsoleTraits {
  bool terminal = false;  // status lines are redrawn; otherwise they come as plain lines, rarely
  ColorDepth colors = ColorDepth::kNone;  // with NO_COLOR set and on TERM=dumb
  int width = 80;                         // columns, at least 1

  bool color() const { return colors != ColorDepth::kNone; }
};

// Looks at a file descriptor, NO_COLOR, TERM and COLORTERM. The width is COLUMNS, else the
// window's; 80 where neither says one that can be true.
ConsoleTraits console_traits(int fd);

// How many colours TERM and COLORTERM promise, whatever the place: at least 16.
ColorDepth terminal_colors();

// Lines above, status below. The core prints through `sink` alone. Not thread-safe.
class Console {
 public:
  using Sink = std::function<void(std::string_view)>;
  Console(Sink sink, ConsoleTraits traits) : sink_(std::move(sink)), traits_(traits) {}

  const ConsoleTraits& traits() const { return traits_; }
  // Writes a text of one or more lines, adding the last newline if it is missing; a status line
  // is cleared first and drawn again below.
  void print(std::string_view text);
  // The same for plain text that may hold names and words of files: shown, never obeyed.
  void say(std::string_view text);
  // Replaces the status line, cut to the width; "" clears it. Nothing on anything but a terminal.
  void set_status(std::string_view text);
  // Paints text if the place shows colours.
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
