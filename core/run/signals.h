#pragma once
// SIGINT, SIGTERM and SIGHUP: stop after saving; a second one stops at once. SIGUSR1: pause.

#include "core/base/interrupt.h"

namespace xrun {

// Stands for a signal in Interrupted if the time of stop.after is over. 128 + it is 0, the exit
// status of a run that ended as it was asked to.
inline constexpr int kTimeIsUp = -128;

// Called inside the signal handler, with the signal that counts (interrupt_signal()), so it must be
// async-signal-safe (lua_sethook is).
using SignalHook = void (*)(int signal_number);

// Makes SIGINT, SIGTERM and SIGHUP (unless ignored, as under nohup) raise the interrupt flag and
// call the hook. A second signal at least 0.3 s after the first says so on stderr and ends the
// process at once with 128 + its number: a checkpoint is whole at every moment, so nothing but the
// steps since the last one is lost. If no stopping text was written and the first signal is pending
// after 3 s, stderr is told so (SIGALRM).
// SIGPIPE is ignored; a write to a closed pipe is then an error like any other.
void install_signal_handlers();

// Makes SIGUSR1 request a pause (interrupt.h) and print so on stderr; by default it ends the
// process. For a run that has a prompt to pause in.
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
