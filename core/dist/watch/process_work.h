#pragma once
// Evidence from the kernel that this process works or waits for I/O, beyond its own activity count.

#include <cstdint>

namespace xrun {

// Returns the processor time of all threads but the calling one, in milliseconds.
int64_t other_threads_cpu_ms();

// Returns how long a thread of this process had a processor or waited for one, in milliseconds: on
// a full machine a loop gets a small share of a processor and waits the rest of the time. -1 if the
// system does not say (/proc/self/task/*/schedstat).
int64_t runnable_ms(int64_t thread);

// Returns true if a thread other than the calling one waits in the kernel for a file, a pipe, a
// disk or another program. False if every thread runs or waits for another thread, a timer or a
// socket: nothing outside could then wake the process. True if the system does not say
// (/proc/self/task/*/syscall).
bool waits_for_outside();

}  // namespace xrun
