// A BPF program over the number of the call. It lists the denied calls, not the allowed ones:
// LibTorch, OpenMP and the drivers of GPUs need many calls, and new ones in new versions, while
// those that can harm others are known. A call of another architecture ends the process, since its
// number means something else.

#include "core/sandbox/seccomp.h"

#include <asm/sockios.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/error.h"

namespace xrun {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
constexpr uint32_t kOtherNumbers = 0x40000000;  // x32: the same calls by other numbers
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr uint32_t kOtherNumbers = 0x80000000;
#else
#error "core/sandbox/seccomp.cpp: add this architecture"
#endif

// Given as numbers, the same on every architecture, because a distribution's headers are often
// older than the running kernel.
constexpr uint32_t kQuotactlFd = 443, kFchmodat2 = 452, kSetxattrat = 463, kRemovexattrat = 466,
                   kOpenTreeAttr = 467, kFileSetattr = 469;

constexpr uint32_t kDenied[] = {
#if defined(__x86_64__)
    SYS_fork, SYS_vfork, SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_chmod, SYS_chown, SYS_lchown,
    SYS_mknod, SYS_uselib, SYS_kexec_file_load, SYS_ustat, SYS_sysfs, SYS_utime, SYS_utimes,
    SYS_futimesat,
#endif
    // the network
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
    SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg,
    // programs and other processes
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp,
    SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_process_madvise,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_setns, SYS_unshare, SYS_personality,
    SYS_setpriority, SYS_ioprio_set, SYS_migrate_pages, SYS_move_pages, SYS_setpgid, SYS_setsid,
    SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr,
    // memory, semaphores and queues that processes share: their ids can be guessed
    SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl,
    SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink,
    // users, and attributes of files, which Landlock does not limit
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
    SYS_capset, SYS_fchmod, SYS_fchmodat, kFchmodat2, SYS_fchown, SYS_fchownat, SYS_setxattr,
    SYS_lsetxattr, SYS_fsetxattr, kSetxattrat, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    kRemovexattrat, kFileSetattr, SYS_utimensat, SYS_mknodat,
    // mounts and handles of files
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, kOpenTreeAttr,
    SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr,
    SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_quotactl, kQuotactlFd, SYS_fanotify_init,
    SYS_swapon, SYS_swapoff,
    // the kernel
    SYS_add_key, SYS_request_key, SYS_keyctl, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd,
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_init_module,
    SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_syslog, SYS_acct,
    SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_sethostname,
    SYS_setdomainname, SYS_vhangup, SYS_lookup_dcookie};

constexpr uint32_t kDeny = SECCOMP_RET_ERRNO | EPERM;

class FilterProgram {
 public:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void end(uint32_t result) { add(BPF_RET | BPF_K, result); }
  // Ends with the result if the loaded word is (is not) the value.
  void end_if(uint32_t value, uint32_t result) { jump(BPF_JEQ, value, 0, 1), end(result); }
  void end_unless(uint32_t value, uint32_t result) { jump(BPF_JEQ, value, 1, 0), end(result); }
  void end_if_any_bit(uint32_t bits, uint32_t result) { jump(BPF_JSET, bits, 0, 1), end(result); }
  void end_unless_bit(uint32_t bits, uint32_t result) { jump(BPF_JSET, bits, 1, 0), end(result); }
  // Applies `rules` to this call alone and allows it if none of them ends the program.
  template <class Rules>
  void of_call(uint32_t number, Rules rules) {
    jump(BPF_JEQ, number, 0, 0);
    const size_t at = code_.size();
    rules();
    end(SECCOMP_RET_ALLOW);
    code_[at - 1].jf = static_cast<uint8_t>(code_.size() - at);
  }
  std::vector<sock_filter>& code() { return code_; }

 private:
  void add(uint16_t code, uint32_t k) { code_.push_back({code, 0, 0, k}); }
  void jump(uint16_t test, uint32_t k, uint8_t yes, uint8_t no) {
    code_.push_back({static_cast<uint16_t>(BPF_JMP | test | BPF_K), yes, no, k});
  }
  std::vector<sock_filter> code_;
};

// Offset of the low half of an argument, on little-endian machines.
constexpr size_t argument(size_t i) { return offsetof(seccomp_data, args) + i * sizeof(uint64_t); }

FilterProgram make_program() {
  FilterProgram p;
  p.load(offsetof(seccomp_data, arch));
  p.end_unless(kArchitecture, SECCOMP_RET_KILL_PROCESS);
  p.load(offsetof(seccomp_data, nr));
  p.end_if_any_bit(kOtherNumbers, SECCOMP_RET_KILL_PROCESS);
  for (const uint32_t number : kDenied) p.end_if(number, kDeny);
  // A filter cannot follow clone3's pointer to its flags; glibc falls back to clone.
  p.end_if(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  p.of_call(SYS_clone, [&] {
    p.load(argument(0));
    p.end_unless_bit(CLONE_THREAD, kDeny);
  });
  // Only signals to itself: aborts and timers send them.
  for (const uint32_t number : {SYS_kill, SYS_tgkill}) {
    p.of_call(number, [&] {
      p.load(argument(0));
      p.end_unless(static_cast<uint32_t>(::getpid()), kDeny);
    });
  }
  p.end_if(SYS_tkill, kDeny);
  // The terminal's input queue belongs to the shell that started xrun.
  p.of_call(SYS_ioctl, [&] {
    p.load(argument(1));
    p.end_if(TIOCSTI, kDeny);
    p.end_if(TIOCLINUX, kDeny);
    p.end_if(TIOCSETD, kDeny);
    for (const uint32_t signals : {FIOASYNC, FIOSETOWN, SIOCSPGRP}) p.end_if(signals, kDeny);
  });
  // With O_ASYNC the kernel signals the owner of a file, or a terminal's group, when input arrives.
  p.of_call(SYS_fcntl, [&] {
    p.load(argument(1));
    p.end_if(F_SETOWN, kDeny);
    p.end_if(F_SETOWN_EX, kDeny);
    p.end_unless(F_SETFL, SECCOMP_RET_ALLOW);
    p.load(argument(2));
    p.end_if_any_bit(O_ASYNC, kDeny);
  });
  // Only for its own threads, named by 0 or the process id.
  p.of_call(SYS_sched_setaffinity, [&] {
    p.load(argument(0));
    p.end_if(0, SECCOMP_RET_ALLOW);
    p.end_unless(static_cast<uint32_t>(::getpid()), kDeny);
  });
  p.of_call(SYS_prctl, [&] {
    p.load(argument(0));
    p.end_if(PR_SET_PDEATHSIG, kDeny);
  });
  // Only its own limits.
  p.of_call(SYS_prlimit64, [&] {
    p.load(argument(0));
    p.end_if(0, SECCOMP_RET_ALLOW);
    p.end_unless(static_cast<uint32_t>(::getpid()), kDeny);
  });
  p.end(SECCOMP_RET_ALLOW);
  return p;
}

}  // namespace

std::string limit_system_calls() {
  XRUN_CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs: {}",
             std::strerror(errno));
  FilterProgram program = make_program();
  const sock_fprog filter = {static_cast<unsigned short>(program.code().size()),
                             program.code().data()};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0) return "";
  XRUN_CHECK(errno == ENOSYS || errno == EINVAL, "seccomp: {}", std::strerror(errno));
  return "this kernel has no seccomp: only Lua's lists keep the recipe from system calls";
}

}  // namespace xrun
