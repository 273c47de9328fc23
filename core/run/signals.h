#pragma once
// SIGINT and SIGTERM: stop after saving; a second one stops at once.

#include "core/base/interrupt.h"

namespace xrun {

// Called inside the signal handler, so it must be async-signal-safe (lua_sethook is).
using SignalHook = void (*)(int signal_number);

// Makes SIGINT and SIGTERM raise the interrupt flag and call the hook. A second signal at least
// 0.3 s after the first says so on stderr and ends the process at once with 128 + its number: a
// checkpoint is whole at every moment, so nothing but the steps since the last one is lost.
// SIGPIPE is ignored; a write to a closed pipe is then an error like any other.
void install_signal_handlers();

// Sets what a signal calls besides raising the flag; nullptr is nothing. The hook outlives its use.
void set_signal_hook(SignalHook hook);

// The exit status of a process stopped by a signal: 130 for SIGINT, 143 for SIGTERM.
int interrupted_exit_status(int signal_number);

}  // namespace xrun
