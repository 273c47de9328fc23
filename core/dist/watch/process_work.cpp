// The kernel names the system call in which a thread is blocked: "202 0x7f.." is futex, "-1 .." a
// page that comes from a disk, "running" a thread that computes.

#include "core/dist/watch/process_work.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace xrun {

namespace {

// System calls that wait for another thread, a timer or a socket.
constexpr long kInnerWaits[] = {
    SYS_futex,         SYS_ppoll,           SYS_pselect6,    SYS_epoll_pwait,
    SYS_epoll_pwait2,  SYS_clock_nanosleep, SYS_nanosleep,   SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend, SYS_restart_syscall, SYS_sched_yield, SYS_accept,
    SYS_accept4,       SYS_connect,         SYS_recvfrom,    SYS_recvmsg,
    SYS_sendto,
#ifdef SYS_poll  // x86-64 only; newer architectures have just the calls above
    SYS_poll,          SYS_select,          SYS_epoll_wait,  SYS_pause,
#endif
    SYS_sendmsg};

int64_t milliseconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

// Returns the beginning of a file of /proc/self/task/THREAD, "" if it cannot be read.
std::string thread_file(const std::string& thread, const char* name) {
  char text[96] = "";
  const std::string path = "/proc/self/task/" + thread + "/" + name;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
}

// Returns true if `text`, a thread's "syscall", says that it waits for something outside.
bool waits_outside(const std::string& text) {
  if (text.starts_with("running")) return false;
  if (text.empty()) return true;
  const long call = std::strtol(text.c_str(), nullptr, 10);
  return std::find(std::begin(kInnerWaits), std::end(kInnerWaits), call) == std::end(kInnerWaits);
}

}  // namespace

int64_t other_threads_cpu_ms() {
  return milliseconds_of(CLOCK_PROCESS_CPUTIME_ID) - milliseconds_of(CLOCK_THREAD_CPUTIME_ID);
}

int64_t runnable_ms(int64_t thread) {
  // Nanoseconds on a processor, then nanoseconds in the queue for one.
  const std::string text = thread_file(std::to_string(thread), "schedstat");
  char* rest = nullptr;
  const int64_t ran = std::strtoll(text.c_str(), &rest, 10);
  if (*rest != ' ') return -1;
  return (ran + std::strtoll(rest, nullptr, 10)) / 1000000;
}

bool waits_for_outside() {
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return true;
  const std::string own = std::to_string(::syscall(SYS_gettid));
  bool outside = false;
  while (const dirent* const entry = ::readdir(tasks)) {
    const std::string thread = entry->d_name;
    if (thread[0] == '.' || thread == own) continue;
    const std::string text = thread_file(thread, "syscall");
    // Its file is gone because the thread has ended, not because the system hides it.
    if (text.empty() && ::access(("/proc/self/task/" + thread).c_str(), F_OK) != 0) continue;
    if (waits_outside(text)) outside = true;
  }
  ::closedir(tasks);
  return outside;
}

}  // namespace xrun
