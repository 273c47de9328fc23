// The first signal asks a run to stop, the second ends it at once. At a prompt no Ctrl-C ends the
// process.

#include "core/run/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/base/error.h"
#include "tests/core/run/child_process.h"
#include "tests/error_of.h"

namespace xrun::signals_test {
namespace {

std::atomic<int> hooked = 0;

// A signal within 0.3 s of the first one is taken for the same key press.
constexpr int kPastOneKeyPressMs = 350;

void wait_until_another_signal_counts() {
  std::this_thread::sleep_for(std::chrono::milliseconds(kPastOneKeyPressMs));
}

TEST(Child, DISABLED_WaitForSignals) {
  install_signal_handlers();
  set_signal_hook([](int signal_number) { hooked = signal_number; });
  std::printf("ready\n");
  std::fflush(stdout);
  while (!interrupt_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::printf("flag %d hook %d\n", interrupt_signal(), hooked.load());
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(30));
}

TEST(Child, DISABLED_StopSlowly) {
  install_signal_handlers();
  if (std::getenv("XRUN_TEST_TEXT") != nullptr) set_stopping_text("\nstopping after this step\n");
  dup2(STDOUT_FILENO, STDERR_FILENO);
  std::printf("ready\n");
  std::fflush(stdout);
  while (!interrupt_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // Beyond the 3 s after which a stop without a text is reported. SIGALRM ends a single sleep.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3300);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::printf("ended\n");
  std::fflush(stdout);
}

// Either at the signal, if there is a text for it, or after 3 s.
TEST(Signals, SlowAStopIsReportedOnce) {
  for (const bool has_text : {true, false}) {
    has_text ? setenv("XRUN_TEST_TEXT", "1", 1) : unsetenv("XRUN_TEST_TEXT");
    ChildProcess child("StopSlowly", "");
    ASSERT_TRUE(child.wait_for("ready"));
    child.kill(SIGINT);
    ASSERT_TRUE(child.wait_for("ended"));
    EXPECT_EQ(child.said().find("stopping after this step") != std::string::npos, has_text);
    EXPECT_EQ(child.said().find("still stopping") != std::string::npos, !has_text);
  }
}

TEST(Signals, TheFirstSignalRaisesTheFlagAndCallsTheHook) {
  ChildProcess child("WaitForSignals", "");
  ASSERT_TRUE(child.wait_for("ready"));
  child.kill(SIGTERM);
  EXPECT_TRUE(child.wait_for("flag 15 hook 15"));
}

TEST(Signals, ALostTerminalStopsLikeSIGTERM) {
  ChildProcess child("WaitForSignals", "");
  ASSERT_TRUE(child.wait_for("ready"));
  child.kill(SIGHUP);
  EXPECT_TRUE(child.wait_for("flag 1 hook 1"));
}

TEST(Signals, ASecondSignalEndsTheProcessAtOnce) {
  ChildProcess child("WaitForSignals", "");
  ASSERT_TRUE(child.wait_for("ready"));
  child.kill(SIGINT);
  child.kill(SIGINT);  // the same key press delivered twice
  ASSERT_TRUE(child.wait_for("flag 2 hook 2"));
  wait_until_another_signal_counts();
  child.kill(SIGINT);
  EXPECT_EQ(child.wait(), 130);
}

TEST(Child, DISABLED_WaitAfterTheTimeIsUp) {
  install_signal_handlers();
  set_signal_hook([](int signal_number) { hooked = signal_number; });
  request_interrupt(kTimeIsUp);
  std::printf("ready\n");
  std::fflush(stdout);
  while (hooked == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::printf("flag %d hook %d\n", interrupt_signal(), hooked.load());
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(30));
}

// The end of stop.after raises the flag, but nobody has sent a signal yet.
TEST(Signals, TheFirstSignalAfterTheTimeIsUpCountsAsTheFirst) {
  ChildProcess child("WaitAfterTheTimeIsUp", "");
  ASSERT_TRUE(child.wait_for("ready"));
  child.kill(SIGTERM);
  EXPECT_TRUE(child.wait_for("flag 15 hook 15"));
  wait_until_another_signal_counts();
  child.kill(SIGTERM);
  EXPECT_EQ(child.wait(), 143);
}

TEST(Child, DISABLED_WaitAtAPrompt) {
  install_signal_handlers();
  set_signal_manner(SignalManner::kPrompt);
  set_signal_hook([](int signal_number) { hooked = signal_number; });
  std::printf("ready\n");
  int seen = 0;
  while (true) {
    std::fflush(stdout);
    while (hooked == seen) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    seen = hooked;
    std::printf("flag %d hook %d\n", interrupt_signal(), seen);
  }
}

// Expects that a SIGTERM `pause_ms` after a Ctrl-C is the first signal that counts.
void expect_sigterm_counts_as_the_first(int pause_ms) {
  ChildProcess child("WaitAtAPrompt", "");
  ASSERT_TRUE(child.wait_for("ready"));
  child.kill(SIGINT);
  ASSERT_TRUE(child.wait_for("flag 2 hook 2"));
  std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  child.kill(SIGTERM);
  EXPECT_TRUE(child.wait_for("flag 15 hook 15"));
  child.kill(SIGINT);  // too soon to be the second signal, and no longer a Ctrl-C of the prompt
  wait_until_another_signal_counts();
  child.kill(SIGTERM);
  EXPECT_EQ(child.wait(), 143);
  EXPECT_TRUE(child.said().ends_with("flag 15 hook 15\n")) << child.said();
}

TEST(Signals, SlowAtAPromptSIGTERMTakesThePlaceOfAPendingCtrlC) {
  expect_sigterm_counts_as_the_first(0);
  expect_sigterm_counts_as_the_first(kPastOneKeyPressMs);
}

TEST(Signals, AtAPromptNoNumberOfCtrlCEndsTheProcess) {
  ChildProcess child("WaitAtAPrompt", "");
  ASSERT_TRUE(child.wait_for("ready"));
  child.kill(SIGINT);
  ASSERT_TRUE(child.wait_for("flag 2 hook 2"));
  wait_until_another_signal_counts();
  child.kill(SIGINT);
  child.kill(SIGHUP);
  EXPECT_TRUE(child.wait_for("flag 1 hook 1"));
}

TEST(Interrupt, AnAnsweredCtrlCDoesNotDiscardAnotherSignal) {
  request_interrupt(SIGTERM);
  clear_interrupt(SIGINT);
  EXPECT_EQ(interrupt_signal(), SIGTERM);
  clear_interrupt(SIGTERM);
  EXPECT_FALSE(interrupt_requested());
}

TEST(Interrupt, KeepsTheFirstSignalAndThrowsIt) {
  request_interrupt(SIGTERM);
  request_interrupt(SIGINT);
  EXPECT_EQ(interrupt_signal(), SIGTERM);
  EXPECT_EQ(signal_of([] { check_interrupt(); }), SIGTERM);
  clear_interrupt();
  EXPECT_FALSE(interrupt_requested());
  check_interrupt();
  EXPECT_EQ(interrupted_exit_status(SIGTERM), 143);
  EXPECT_EQ(interrupted_exit_status(SIGHUP), 129);
}

}  // namespace
}  // namespace xrun::signals_test
