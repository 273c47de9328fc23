// A status line is drawn without a newline: "\r", the text, and "erase to the end of the line".
// Printing erases it first and draws it again below.

#include "core/console/terminal/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string>

#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr int kUsualWidth = 80;
constexpr int kWidest = 2000;  // larger values are implausible
constexpr std::string_view kEraseLine = "\r\x1b[K";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int width_of(int fd) {
  // COLUMNS comes first: a user or a test set it on purpose.
  const std::string columns = environment("COLUMNS");
  int width = 0;
  std::from_chars(columns.data(), columns.data() + columns.size(), width);
  const auto plausible = [](int value) { return value > 0 && value <= kWidest; };
  winsize size{};
  if (!plausible(width) && ::ioctl(fd, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return plausible(width) ? width : kUsualWidth;
}

}  // namespace

ConsoleTraits console_traits(int fd) {
  ConsoleTraits traits;
  // Emacs' shell and CI logs set TERM=dumb; they do not understand escape sequences.
  const bool dumb = environment("TERM") == "dumb";
  traits.terminal = ::isatty(fd) != 0 && !dumb;
  if (traits.terminal && environment("NO_COLOR").empty()) traits.colors = terminal_colors();
  traits.width = width_of(fd);
  return traits;
}

// Terminals with 256 colours name them in TERM; newer ones set COLORTERM.
ColorDepth terminal_colors() {
  const std::string term = environment("TERM");
  const bool many = term.find("256color") != std::string::npos ||
                    term.find("direct") != std::string::npos || !environment("COLORTERM").empty();
  return many ? ColorDepth::k256 : ColorDepth::k16;
}

void write_through(std::FILE* stream, std::string_view text) {
  // The loop below bypasses the stream's buffer, whose bytes come first.
  std::fflush(stream);
  while (!text.empty()) {
    const ssize_t written = ::write(fileno(stream), text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      std::fwrite(text.data(), 1, text.size(), stream);  // fails likewise and sets the flag
      std::fflush(stream);
      return;
    }
  }
}

void Console::print_raw(std::string_view text) {
  // One write erases the status line and draws it again, so that it does not flicker.
  std::string out;
  if (!status_.empty()) out += kEraseLine;
  out += text;
  if (out.empty() || out.back() != '\n') out += '\n';
  out += status_;
  sink_(out);
}

void Console::print_escaped(std::string_view text) { print_raw(shown_text(text)); }

void Console::set_status(std::string_view text) {
  if (!traits_.terminal) return;
  // A character in the last column would wrap, and the wrapped row would never be erased.
  std::string next = cut_to_width(text, traits_.width - 1);
  if (next == status_) return;
  status_ = std::move(next);
  sink_(std::string(kEraseLine) + status_);
}

std::string Console::paint(const char* code, std::string_view text) const {
  if (!traits_.color() || text.empty()) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string Console::bold(std::string_view text) const { return paint("1", text); }
std::string Console::dim(std::string_view text) const { return paint("2", text); }
std::string Console::red(std::string_view text) const { return paint("31", text); }

}  // namespace xrun
