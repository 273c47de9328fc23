#pragma once
// Seccomp: the system calls that this process cannot make.

#include <string>

namespace xrun {

// From now on these calls fail with EPERM in this thread and those that it starts later: making a
// socket, running a program, starting a process, signalling another process, and the kernel's
// interfaces to other processes, mounts, keys, modules, clocks, BPF and io_uring. Cannot be undone.
// Returns "", or a sentence for the user if the kernel has no seccomp.
std::string limit_system_calls();

}  // namespace xrun
