// Signals end a wait, and the more important of two is reported.

#include "core/console/terminal/terminal_input.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>

namespace xrun::terminal_input_test {
namespace {

class TerminalInputTest : public testing::Test {
 protected:
  TerminalInputTest() { EXPECT_EQ(::pipe(ends_), 0); }
  ~TerminalInputTest() override {
    for (const int end : ends_) ::close(end);
    for (const int signal_number : {SIGWINCH, SIGCONT}) ::signal(signal_number, SIG_DFL);
  }
  int ends_[2] = {-1, -1};
};

TEST_F(TerminalInputTest, AContinuedProcessIsReportedThoughTheWindowWasResizedToo) {
  TerminalInput input(ends_[0], ends_[1]);
  std::string bytes;
  for (const auto& [first, second] : {std::pair{SIGCONT, SIGWINCH}, {SIGWINCH, SIGCONT}}) {
    ::raise(first);
    ::raise(second);
    EXPECT_EQ(input.read(bytes, 0), TerminalInput::Event::kContinued);
    EXPECT_EQ(input.read(bytes, 0), TerminalInput::Event::kTimeout);
  }
  ::raise(SIGWINCH);
  EXPECT_EQ(input.read(bytes, 0), TerminalInput::Event::kResized);
}

TEST_F(TerminalInputTest, AWakeIsReportedBeforeEverythingElse) {
  TerminalInput input(ends_[0], ends_[1]);
  std::string bytes;
  TerminalInput::wake();
  ::raise(SIGCONT);
  EXPECT_EQ(input.read(bytes, 0), TerminalInput::Event::kWoken);
}

}  // namespace
}  // namespace xrun::terminal_input_test
