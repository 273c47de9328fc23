#pragma once
// Evidence from the kernel that this process works or waits for I/O, beyond its own activity count.

#include <cstdint>

namespace xrun {

// Returns the processor time of all threads but the calling one, in milliseconds.
int64_t other_threads_cpu_ms();

// Returns the time in which a thread of this process had a processor or waited for one, in
// milliseconds: on a full machine a loop has a small share of a processor and waits for it all the
// rest. -1 if the system does not say (/proc/self/task/*/schedstat).
int64_t runnable_ms(int64_t thread);

// Returns if a thread but the calling one is in the kernel for a file, a pipe, a disk or another
// program. False if every thread runs or waits for another thread, a timer or a socket: such a
// process goes on only by itself. True if the system does not say (/proc/self/task/*/syscall).
bool waits_for_outside();

}  // namespace xrun
