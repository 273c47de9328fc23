// The limits on memory count private writable pages (RLIMIT_DATA), not addresses: drivers of GPUs
// and allocators reserve far more addresses than they use.

#include "core/sandbox/sandbox.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/sandbox/landlock.h"
#include "core/sandbox/print_limit.h"
#include "core/sandbox/seccomp.h"

namespace xrun {

namespace {

constexpr rlim_t kOpenFiles = 1024;
constexpr rlim_t kStackBytes = rlim_t{8} << 20;
constexpr int64_t kMb = int64_t{1} << 20;
constexpr rlim_t kMoreTasks = 1024;  // threads of this process and tasks of the user's other ones

void limit(__rlimit_resource what, const char* name, rlim_t most) {
  rlimit now{};
  getrlimit(what, &now);
  const rlim_t wanted = std::min(most, now.rlim_max);
  const rlimit set = {wanted, wanted};
  XRUN_CHECK(setrlimit(what, &set) == 0, "the limit on {} cannot be set: {}", name,
             std::strerror(errno));
}

// Returns the number of threads on the machine, at least those of the user: 80 in "0.2 0.1 0.1 1/80
// 112".
rlim_t running_tasks() {
  std::ifstream file("/proc/loadavg");
  std::string load, running, tasks;
  file >> load >> load >> load;
  std::getline(file, running, '/');
  file >> tasks;
  return static_cast<rlim_t>(std::strtoull(tasks.c_str(), nullptr, 10));
}

rlim_t memory_bytes(const SandboxLimits& limits) {
  if (limits.memory_mb > 0) return static_cast<rlim_t>(limits.memory_mb * kMb);
  const auto pages = static_cast<rlim_t>(sysconf(_SC_PHYS_PAGES));
  return pages / 4 * 3 * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

std::vector<std::string> enter_sandbox(const FileAccess& access, const FileAccess& system,
                                       const SandboxLimits& limits, int64_t parent) {
  XRUN_CHECK(list_folder("/proc/self/task").size() <= 1,
             "a process with several threads cannot be limited: only the calling one would be");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // No signal comes for a parent that ended before that call.
  XRUN_CHECK(parent == 0 || ::getppid() == parent,
             "the process that started this one, {}, has ended", parent);
  limit(RLIMIT_CORE, "core files", 0);
  limit(RLIMIT_NOFILE, "open files", kOpenFiles);
  limit(RLIMIT_STACK, "the stack", kStackBytes);
  limit(RLIMIT_DATA, "memory", memory_bytes(limits));
  // seccomp allows no process at all; this bounds them on a kernel without it.
  limit(RLIMIT_NPROC, "processes", running_tasks() + kMoreTasks);
  // Bounds each file; the parent watches their sum.
  if (limits.files_mb > 0) limit(RLIMIT_FSIZE, "files", static_cast<rlim_t>(limits.files_mb * kMb));
  if (limits.seconds > 0) {
    const rlim_t processors = std::max(1U, std::thread::hardware_concurrency());
    limit(RLIMIT_CPU, "time", static_cast<rlim_t>(limits.seconds) * processors + 1);
  }
  limit_printing(limits.output_mb);
  limit_file_access(&access);
  FileAccess all = access;
  all.readable.insert(all.readable.end(), system.readable.begin(), system.readable.end());
  all.writable.insert(all.writable.end(), system.writable.begin(), system.writable.end());
  std::vector<std::string> weaker;
  // Lets tests pretend an older kernel.
  const char* const version = std::getenv("XRUN_LANDLOCK_VERSION");
  const int known = landlock_version();
  weaker.push_back(limit_files_by_landlock(
      all, version == nullptr ? known : std::min(known, std::atoi(version))));
  weaker.push_back(limit_system_calls());
  std::erase(weaker, "");
  return weaker;
}

}  // namespace xrun
