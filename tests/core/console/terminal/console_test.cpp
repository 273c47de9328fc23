// The status line is cleared and redrawn around printed lines, and a file receives plain text only.

#include "core/console/terminal/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "tests/scoped_variable.h"

namespace xrun::console_test {
namespace {

TEST(Console, APrintedLineClearsTheStatusAndDrawsItAgain) {
  std::string out;
  Console console([&](std::string_view text) { out += text; }, {true, ColorDepth::kNone, 20});
  console.set_status("step 1");
  console.print_raw("hello");
  console.set_status("");
  console.print_raw("bye\n");
  EXPECT_EQ(out, "\r\x1b[Kstep 1\r\x1b[Khello\nstep 1\r\x1b[Kbye\n");
}

TEST(Console, EscapedTextHasNoControlSequences) {
  std::string out;
  Console console([&](std::string_view text) { out += text; }, {true, ColorDepth::k16, 80});
  console.print_escaped("\x1b[2Jrow\x9b:\u202e\n");
  EXPECT_EQ(out, "<1B>[2Jrow<9B>:<U+202E>\n");
}

TEST(Console, AStatusNeverFillsTheLastColumn) {
  std::string out;
  Console console([&](std::string_view text) { out += text; }, {true, ColorDepth::kNone, 8});
  console.set_status("0123456789");
  EXPECT_EQ(out, "\r\x1b[K012345…");
}

TEST(Console, AFileGetsNeitherStatusNorColour) {
  std::string out;
  Console console([&](std::string_view text) { out += text; }, {false, ColorDepth::kNone, 80});
  console.set_status("step 1");
  console.print_raw(console.red("hello"));
  EXPECT_EQ(out, "hello\n");
}

TEST(Console, PaintsOnlyIfTheOutputHasColours) {
  const Console console([](std::string_view) {}, {true, ColorDepth::k16, 80});
  EXPECT_EQ(console.bold("a"), "\x1b[1ma\x1b[0m");
  EXPECT_EQ(console.bold(""), "");
}

// The terminal's end of a pseudo-terminal with so many columns.
struct Terminal {
  explicit Terminal(uint16_t columns) {
    ::grantpt(leader);
    ::unlockpt(leader);
    fd = ::open(::ptsname(leader), O_RDWR | O_NOCTTY);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    ::ioctl(fd, TIOCSWINSZ, &size);
  }
  ~Terminal() {
    ::close(fd);
    ::close(leader);
  }
  int leader = ::posix_openpt(O_RDWR | O_NOCTTY);
  int fd = -1;
  ScopedVariable no_color{"NO_COLOR", ""}, color_term{"COLORTERM", ""}, columns{"COLUMNS", ""};
  ScopedVariable term{"TERM", "xterm-256color"};
};

TEST(ConsoleTraits, FollowTheTerminal) {
  const Terminal terminal(97);
  EXPECT_EQ(console_traits(terminal.fd).width, 97);
  EXPECT_EQ(console_traits(terminal.fd).colors, ColorDepth::k256);
  const ScopedVariable plainer("TERM", "linux");
  EXPECT_EQ(console_traits(terminal.fd).colors, ColorDepth::k16);
  const ScopedVariable many("COLORTERM", "truecolor");
  EXPECT_EQ(console_traits(terminal.fd).colors, ColorDepth::k256);
  const ScopedVariable none("NO_COLOR", "1");
  EXPECT_FALSE(console_traits(terminal.fd).color());
  EXPECT_TRUE(console_traits(terminal.fd).terminal);
}

TEST(ConsoleTraits, ADumbTerminalCountsAsAFile) {
  const Terminal terminal(80);
  const ScopedVariable dumb("TERM", "dumb");
  EXPECT_FALSE(console_traits(terminal.fd).terminal);
  EXPECT_FALSE(console_traits(terminal.fd).color());
}

TEST(ConsoleTraits, AnImplausibleWidthBecomesEighty) {
  EXPECT_EQ(console_traits(Terminal(0).fd).width, 80);
  EXPECT_EQ(console_traits(Terminal(60000).fd).width, 80);
  const Terminal terminal(20);
  for (const char* columns : {"0", "-3", "x", "", "60000"}) {
    const ScopedVariable given("COLUMNS", columns);
    EXPECT_EQ(console_traits(terminal.fd).width, 20) << columns;
  }
  const ScopedVariable given("COLUMNS", "33");
  EXPECT_EQ(console_traits(terminal.fd).width, 33);
  EXPECT_EQ(console_traits(-1).width, 33);
}

void ignore_signal(int) {}

TEST(WriteThrough, ASignalNeitherCutsTheTextNorFailsTheStream) {
  struct sigaction action {
  }, before{};
  action.sa_handler = ignore_signal;  // without SA_RESTART: a blocked write returns EINTR
  sigaction(SIGUSR2, &action, &before);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::FILE* stream = fdopen(ends[1], "w");
  const std::string text(1 << 20, 'x');  // more than the pipe holds
  std::string got;
  std::thread reader([&, writer = pthread_self()] {
    std::string piece(1 << 14, ' ');
    while (got.size() < text.size()) {
      usleep(1000);  // the writer waits for room
      pthread_kill(writer, SIGUSR2);
      const ssize_t n = read(ends[0], piece.data(), piece.size());
      if (n <= 0) return;
      got.append(piece, 0, static_cast<size_t>(n));
    }
  });
  write_through(stream, text);
  EXPECT_EQ(std::ferror(stream), 0);
  std::fclose(stream);  // ends the reader's wait, whatever was written
  reader.join();
  EXPECT_EQ(got.size(), text.size());
  close(ends[0]);
  sigaction(SIGUSR2, &before, nullptr);
}

TEST(WriteThrough, AClosedStreamHasItsErrorFlagSet) {
  std::FILE* stream = std::fopen("/dev/full", "w");
  write_through(stream, "text");
  EXPECT_NE(std::ferror(stream), 0);
  std::fclose(stream);
}

}  // namespace
}  // namespace xrun::console_test
