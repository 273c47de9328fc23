// The handler touches two atomics, the hook and write(2): everything in it is async-signal-safe.
#include "core/run/signals.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace xrun {

namespace {

// Long enough that one Ctrl-C delivered twice (to a process group and by a parent) counts once.
constexpr int64_t kSecondSignalAfterMs = 300;
constexpr char kStoppingAtOnce[] =
    "\nstopping at once; the last checkpoint stands, --resume continues from it\n";

std::atomic<SignalHook> signal_hook = nullptr;
std::atomic<int64_t> first_signal_ms = 0;

int64_t now_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

void on_signal(int signal_number) {
  const int saved_errno = errno;
  if (!interrupt_requested()) {
    first_signal_ms = now_ms();
  } else if (now_ms() - first_signal_ms >= kSecondSignalAfterMs) {
    if (write(STDERR_FILENO, kStoppingAtOnce, sizeof kStoppingAtOnce - 1) < 0) {
      // nobody reads stderr; the process ends all the same
    }
    _exit(interrupted_exit_status(signal_number));
  }
  request_interrupt(signal_number);
  if (const SignalHook hook = signal_hook) hook(signal_number);
  errno = saved_errno;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  // Reads of a prompt return EINTR; files are written by loops that go on.
  action.sa_flags = 0;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

void set_signal_hook(SignalHook hook) { signal_hook = hook; }

int interrupted_exit_status(int signal_number) { return 128 + signal_number; }

}  // namespace xrun
