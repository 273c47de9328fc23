#pragma once
// Cooperative cancellation: the flag that SIGINT and SIGTERM raise, polled wherever work may stop
// without loss. core/run/signals.h installs the handlers.

namespace xrun {

// Raises the flag. Async-signal-safe. The first signal's number stays until clear_interrupt.
void request_interrupt(int signal_number);

bool interrupt_requested();

// The signal that raised the flag, or 0.
int interrupt_signal();

// Throws Interrupted if the flag is raised; the flag stays raised.
void check_interrupt();

// Lowers the flag.
void clear_interrupt();
// Lowers the flag only if this signal raised it: a prompt that has answered a Ctrl-C must not drop
// a SIGTERM that arrived meanwhile. Async-signal-safe.
void clear_interrupt(int signal_number);

// Raises a second flag, as SIGUSR1 does: a run's loop pauses before its next body.
// Async-signal-safe.
void request_pause();
// Lowers the flag; returns true if it was raised.
bool take_pause_request();

// ---- inside long kernels

// A check inside long kernels, called while the flag is raised; throws Interrupted if the kernel
// may be cancelled. Any working thread may call it.
using WorkPoll = void (*)();

// Sets the poll and returns the previous one. nullptr, the initial value, cancels nothing: a run
// finishes its step first. The prompt sets one.
WorkPoll set_work_poll(WorkPoll poll);

// Calls the poll if the flag is raised; costs one relaxed load otherwise. Models call it for each
// block, forward and backward.
void check_work_interrupt();

}  // namespace xrun
