// The handlers touch atomics, the hook, write(2), alarm(2) and, before the end, system calls that
// remove folders: all of it is async-signal-safe.

#include "core/run/signals.h"

#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "core/base/process_usage.h"
#include "core/base/temporary_dir.h"

namespace xrun {

namespace {

// One Ctrl-C may arrive twice, through the process group and from a parent; it counts once.
constexpr int64_t kSecondSignalAfterMs = 300;
constexpr unsigned kStillStoppingAfterS = 3;
constexpr char kStoppingAtOnce[] =
    "\nstopping at once; --resume continues from the last checkpoint, if there is one\n";
constexpr char kPausing[] = "\npausing after this step\n";
constexpr char kStillStopping[] =
    "\nstill stopping; another Ctrl-C stops at once, without saving\n";

constexpr char kStillComputing[] =
    "\nstill inside one operation; Ctrl-C takes effect when it ends, Ctrl-\\ ends xrun at once\n";

std::atomic<SignalManner> manner = SignalManner::kRun;
std::atomic<SignalHook> signal_hook = nullptr;
std::atomic<const char*> stopping_text = nullptr;
std::atomic<int64_t> first_signal_ms = 0;

void say(const char* text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) {
    // Nobody reads stderr. The process ends anyway.
  }
}

// Returns true if the process survives this signal.
bool stays(int signal_number) { return signal_number == SIGINT && manner == SignalManner::kPrompt; }

void on_signal(int signal_number) {
  // The interrupted code may be between a system call and its check of errno.
  const int saved_errno = errno;
  const bool pending_stays = interrupt_requested() && stays(interrupt_signal());
  // The end of stop.after raises the flag too, and nobody has sent a signal yet.
  const bool first = !interrupt_requested() || interrupt_signal() == kTimeIsUp ||
                     (pending_stays && !stays(signal_number));
  if (first) {
    clear_interrupt(SIGINT);
    clear_interrupt(kTimeIsUp);
    first_signal_ms = monotonic_ms();
    const char* const text = stays(signal_number) ? nullptr : stopping_text.load();
    if (text != nullptr) {
      say(text);
    } else {
      // A timer thread would not be async-signal-safe; SIGALRM is.
      alarm(kStillStoppingAfterS);
    }
  } else if (!pending_stays && monotonic_ms() - first_signal_ms >= kSecondSignalAfterMs) {
    say(kStoppingAtOnce);
    remove_temporary_dirs();
    // A plain end would run destructors inside the handler.
    _exit(interrupted_exit_status(signal_number));
  }
  request_interrupt(signal_number);
  const int counts = interrupt_signal();
  if (const SignalHook hook = signal_hook; hook != nullptr && counts != 0) hook(counts);
  errno = saved_errno;
}

void on_alarm(int) {
  const int saved_errno = errno;
  if (interrupt_requested()) say(stays(interrupt_signal()) ? kStillComputing : kStillStopping);
  errno = saved_errno;
}

void on_pause(int) {
  if (manner == SignalManner::kPrompt) return;  // it is open already
  const int saved_errno = errno;
  say(kPausing);
  request_pause();
  errno = saved_errno;
}

// Handlers of the main thread run on a separate stack. oneDNN's AVX-512 product of floats keeps
// values further below the stack pointer than the 128 bytes that a handler's frame leaves alone, so
// a signal during a product would corrupt the heap or the result (seen with LibTorch 2.11 on Zen 5:
// every run under 1,000 signals a second, one of 20 with a single one).
void use_signal_stack() {
  // AT_MINSIGSTKSZ: the frame with all vector registers, 3 to 11 KB.
  constexpr size_t kHandlers = size_t{64} << 10;
  static std::vector<char> memory(getauxval(AT_MINSIGSTKSZ) + kHandlers);
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, nullptr);
}

// A signal that the process inherited as ignored (nohup) stays ignored.
void handle(int signal_number, const struct sigaction& action) {
  struct sigaction before {};
  sigaction(signal_number, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(signal_number, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  use_signal_stack();
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int stop : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, stop);
  // No SA_RESTART: reads at a prompt return EINTR. Loops that write files continue.
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  handle(SIGHUP, action);
  struct sigaction late {};
  late.sa_handler = on_alarm;
  sigemptyset(&late.sa_mask);
  late.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGALRM, &late, nullptr);
  // `xrun ... | head` must end with an error of write, not by a silent kill in the middle of a
  // save.
  signal(SIGPIPE, SIG_IGN);
}

void install_pause_handler() {
  use_signal_stack();
  struct sigaction action {};
  action.sa_handler = on_pause;
  sigemptyset(&action.sa_mask);
  // A pause interrupts nothing: reads of data and of the terminal continue.
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
}

void set_signal_hook(SignalHook hook) { signal_hook = hook; }

void set_stopping_text(const char* text) { stopping_text = text; }

SignalManner set_signal_manner(SignalManner wanted) { return manner.exchange(wanted); }

int interrupted_exit_status(int signal_number) { return 128 + signal_number; }

}  // namespace xrun
