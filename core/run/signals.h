#pragma once
// SIGINT, SIGTERM and SIGHUP: stop after saving; a second one stops at once. SIGUSR1: pause.

#include "core/base/interrupt.h"

namespace xrun {

// The signal number of an Interrupted because the time of stop.after is over. 128 + kTimeIsUp is 0,
// the exit status of a run that ended as it was asked to.
inline constexpr int kTimeIsUp = -128;

// Called inside the signal handler, with the signal that counts (interrupt_signal()), so it must be
// async-signal-safe (lua_sethook is).
using SignalHook = void (*)(int signal_number);

// Makes SIGINT, SIGTERM and SIGHUP (unless ignored, as under nohup) raise the interrupt flag and
// call the hook. A second signal at least 0.3 s after the first prints a notice to stderr and ends
// the process at once with 128 + its number: checkpoints are whole at every moment, so only the
// steps since the last one are lost. If no stopping text was written and the first signal is still
// pending after 3 s, a notice on stderr says so (SIGALRM).
// SIGPIPE is ignored; a write to a closed pipe is then an error like any other.
void install_signal_handlers();

// Makes SIGUSR1 request a pause (interrupt.h) and print a notice to stderr. For a run that has a
// prompt to pause in; in others SIGUSR1 ends the process, its default.
void install_pause_handler();

// Sets the hook of the signal handlers; nullptr for none. The hook must outlive its use.
void set_signal_hook(SignalHook hook);

// Sets the literal that the first signal writes to stderr at once; nullptr for none.
void set_stopping_text(const char* text);

// The meaning of Ctrl-C.
enum class SignalManner {
  kRun,     // stop after saving; a second one ends the process
  kPrompt,  // stop the computation; the process stays, however many come
};

// Sets the manner and returns the previous one. SIGTERM and SIGHUP mean the same in both: at a
// prompt one replaces a pending Ctrl-C and counts as the first signal; a later Ctrl-C is the
// second.
SignalManner set_signal_manner(SignalManner manner);

// The exit status of a process stopped by a signal: 129 for SIGHUP, 130 for SIGINT, 143 for
// SIGTERM, 0 for kTimeIsUp.
int interrupted_exit_status(int signal_number);

}  // namespace xrun
