// Signal handlers write one byte into a pipe that read() also polls, so no wait misses a signal,
// whichever thread received it.

#include "core/console/terminal/terminal_input.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr const char* kBracketPastes = "\x1b[?2004h";
constexpr const char* kPlainPastes = "\x1b[?2004l";

// A global, because signal handlers have no other state; never closed.
int wake_pipe[2] = {-1, -1};

void say(char what) noexcept {
  // A handler must leave errno as it was.
  const int saved_errno = errno;
  if (wake_pipe[1] >= 0 && ::write(wake_pipe[1], &what, 1) < 0) {
    // The pipe is full, so read() will wake up anyway.
  }
  errno = saved_errno;
}

void on_resized(int) { say('r'); }
void on_continued(int) { say('c'); }

void open_wake_pipe() {
  if (wake_pipe[0] >= 0) return;
  XRUN_CHECK(::pipe2(wake_pipe, O_NONBLOCK | O_CLOEXEC) == 0, "cannot create a pipe: {}",
             std::strerror(errno));
}

void handle(int signal_number, void (*function)(int)) {
  struct sigaction action {};
  action.sa_handler = function;
  sigemptyset(&action.sa_mask);
  // Interrupted reads and writes continue after the handler. It runs on the signal stack of
  // core/run/signals.cpp if there is one.
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(signal_number, &action, nullptr);
}

// Empties the pipe; returns the most important byte, or 0. "c" covers "r": the response to it reads
// the size of the screen too.
char drain() {
  constexpr std::string_view kRising = "rcw";
  char bytes[64], what = 0;
  const auto rank = [&](char byte) { return byte == 0 ? 0 : kRising.find(byte) + 1; };
  for (ssize_t n; (n = ::read(wake_pipe[0], bytes, sizeof bytes)) > 0;) {
    for (ssize_t i = 0; i < n; ++i) {
      if (rank(bytes[i]) > rank(what)) what = bytes[i];
    }
  }
  return what;
}

}  // namespace

TerminalInput::TerminalInput(int in, int out) : in_(in), out_(out) {
  open_wake_pipe();
  handle(SIGWINCH, on_resized);
  handle(SIGCONT, on_continued);
}

TerminalInput::~TerminalInput() { leave(); }

void TerminalInput::enter() {
  if (raw_) return;
  XRUN_CHECK(::tcgetattr(in_, &before_) == 0, "cannot read the terminal mode: {}",
             std::strerror(errno));
  termios raw = before_;
  // No line editing, no conversion of bytes, no flow control, no signals from keys.
  raw.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
  raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
  raw.c_cflag |= CS8;
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  // TCSADRAIN keeps keys that were pressed before; TCSAFLUSH would discard them.
  XRUN_CHECK(::tcsetattr(in_, TCSADRAIN, &raw) == 0, "cannot set the terminal to raw mode: {}",
             std::strerror(errno));
  raw_ = true;
  write(kBracketPastes);
}

void TerminalInput::leave() noexcept {
  if (!raw_) return;
  raw_ = false;
  if (::write(out_, kPlainPastes, std::strlen(kPlainPastes)) < 0) {
    // The terminal is gone; there is nobody to tell.
  }
  ::tcsetattr(in_, TCSADRAIN, &before_);
}

TerminalInput::Event TerminalInput::read(std::string& bytes, int timeout_ms) {
  while (true) {
    pollfd waits[2] = {{in_, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}};
    const int ready = ::poll(waits, 2, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return Event::kTimeout;
    if ((waits[1].revents & POLLIN) != 0) {
      const char what = drain();
      if (what == 'w') return Event::kWoken;
      if (what == 'c' || what == 'r') return what == 'c' ? Event::kContinued : Event::kResized;
    }
    if (waits[0].revents == 0) continue;
    char piece[4096];
    const ssize_t n = ::read(in_, piece, sizeof piece);
    if (n > 0) {
      bytes.append(piece, static_cast<size_t>(n));
      return Event::kBytes;
    }
    if (n == 0 || (errno != EINTR && errno != EAGAIN)) return Event::kEnd;
  }
}

void TerminalInput::write(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(out_, bytes.data() + at, bytes.size() - at);
    if (n > 0) {
      at += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      pollfd out{out_, POLLOUT, 0};
      ::poll(&out, 1, -1);  // until a slow terminal accepts more
    } else if (errno != EINTR) {
      return;  // the terminal is gone; read() reports it
    }
  }
}

ScreenSize TerminalInput::size() const {
  winsize got{};
  ScreenSize size;
  if (::ioctl(out_, TIOCGWINSZ, &got) == 0) {
    if (got.ws_col > 0) size.columns = got.ws_col;
    if (got.ws_row > 0) size.rows = got.ws_row;
  }
  return size;
}

void TerminalInput::suspend() {
  leave();
  // Signals the whole group, as the terminal itself would. The process goes on here when the shell
  // continues it.
  ::kill(0, SIGTSTP);
  enter();
}

void TerminalInput::wake() noexcept { say('w'); }

}  // namespace xrun
