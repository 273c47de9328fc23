#pragma once
// The flag that SIGINT and SIGTERM raise, looked at wherever work may stop without loss.
//
// It stands below every folder that works long (caching, steps, sampling); core/run/signals.h
// installs the handlers that raise it.

namespace xrun {

// Raises the flag. Async-signal-safe. The first number stays until clear_interrupt.
void request_interrupt(int signal_number);

bool interrupt_requested();

// The signal that raised the flag, or 0.
int interrupt_signal();

// Throws Interrupted if the flag is raised; the flag stays raised.
void check_interrupt();

// Lowers the flag.
void clear_interrupt();
// Lowers the flag if this signal raised it, as a prompt does after it has answered a Ctrl-C: one
// that ends the process and came meanwhile stays. Async-signal-safe.
void clear_interrupt(int signal_number);

// A second flag, of SIGUSR1: a loop pauses between two bodies. Raising it is async-signal-safe.
void request_pause();
// Lowers the flag; returns whether it was raised.
bool take_pause_request();

}  // namespace xrun
