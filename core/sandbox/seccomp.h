#pragma once
// Seccomp: the system calls that this process cannot make.

#include <string>

namespace xrun {

// From now on this thread, and those that it starts later, can make no socket, run no program,
// start no process, signal no other process, and use none of the kernel's interfaces to other
// processes, mounts, keys, modules, clocks, BPF and io_uring: each fails with EPERM. Never undone.
// Returns what is weaker because the kernel has no seccomp, "" if it has.
std::string limit_system_calls();

}  // namespace xrun
