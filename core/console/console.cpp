// A status line is drawn without a newline: "\r", the text, and "erase to the end of the line".
// Whatever is printed erases it first, and it is drawn again below.
#include "core/console/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/console/table.h"

namespace xrun {

namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ConsoleTraits console_traits(int fd) {
  ConsoleTraits traits;
  const bool dumb = environment("TERM") == "dumb";
  traits.terminal = ::isatty(fd) != 0 && !dumb;
  traits.color = traits.terminal && environment("NO_COLOR").empty();
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) traits.width = size.ws_col;
  return traits;
}

void Console::print(std::string_view text) {
  std::string out;
  if (!status_.empty()) out += kEraseLine;
  out += text;
  if (out.empty() || out.back() != '\n') out += '\n';
  out += status_;
  sink_(out);
}

void Console::set_status(std::string_view text) {
  if (!traits_.terminal) return;
  // A full last column would wrap and leave a line behind.
  std::string next = cut_to_width(text, traits_.width - 1);
  if (next == status_) return;
  status_ = std::move(next);
  sink_(std::string(kEraseLine) + status_);
}

std::string Console::paint(const char* code, std::string_view text) const {
  if (!traits_.color || text.empty()) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string Console::bold(std::string_view text) const { return paint("1", text); }
std::string Console::dim(std::string_view text) const { return paint("2", text); }
std::string Console::red(std::string_view text) const { return paint("31", text); }

}  // namespace xrun
