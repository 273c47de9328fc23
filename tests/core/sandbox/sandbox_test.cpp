// Each limit is set in a process of its own, which exits with what it found.

#include "core/sandbox/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/mapped_file.h"
#include "core/base/sha256.h"
#include "core/sandbox/landlock.h"
#include "core/sandbox/seccomp.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::sandbox_test {
namespace {

namespace fs = std::filesystem;

// Passes if `holds` is true in a process with the limits.
void expect_inside(const FileAccess& access, const SandboxLimits& limits,
                   const std::function<bool()>& holds) {
  EXPECT_EXIT(
      {
        enter_sandbox(access, {}, limits);
        _exit(holds() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

int code_of_open(const fs::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags, 0600);
  if (fd < 0) return errno;
  ::close(fd);
  return 0;
}

struct SandboxTest : ::testing::Test {
  SandboxTest() {
    for (const char* name : {"in", "out", "run"}) make_dirs(folder.path() / name);
    write_file_atomic(in, "in");
    write_file_atomic(out, "out");
    fs::create_symlink(out, folder.path() / "in/link");
    access.readable = {folder.path() / "in"};
    access.writable = {folder.path() / "run"};
  }
  ScratchFolder folder;
  const fs::path in = folder.path() / "in/file", out = folder.path() / "out/file";
  FileAccess access;
};

TEST_F(SandboxTest, TheKernelRefusesPathsOutside) {
  if (landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  expect_inside(access, {}, [&] {
    return code_of_open(in, O_RDONLY) == 0 && code_of_open(out, O_RDONLY) == EACCES &&
           code_of_open(folder.path() / "in/link", O_RDONLY) == EACCES &&
           code_of_open(in, O_WRONLY) == EACCES &&
           code_of_open(folder.path() / "run/new", O_WRONLY | O_CREAT) == 0 &&
           code_of_open(folder.path() / "out/new", O_WRONLY | O_CREAT) == EACCES &&
           ::unlink(out.c_str()) != 0 && ::truncate(out.c_str(), 0) != 0 &&
           ::rename(in.c_str(), (folder.path() / "run/moved").c_str()) != 0 &&
           ::mkfifo((folder.path() / "run/pipe").c_str(), 0600) != 0;
  });
}

TEST_F(SandboxTest, XrunRefusesPathsOutsideByItself) {
  limit_file_access(&access);
  EXPECT_EQ(read_file(in), "in");
  const std::string wanted = "follows no link out of them";
  for (const fs::path& path : {out, folder.path() / "in/link", folder.path() / "in/../out/file",
                               fs::path("/etc/passwd")}) {
    EXPECT_NE(error_of([&] { read_file(path); }).find(wanted), std::string::npos) << path;
    EXPECT_NE(error_of([&] { MappedFile mapped(path); }).find(wanted), std::string::npos) << path;
  }
  EXPECT_NE(error_of([&] { write_file_atomic(in, "x"); }).find("may not be written"),
            std::string::npos);
  write_file_atomic(folder.path() / "run/file", "x");
  fs::create_symlink(folder.path() / "out/new", folder.path() / "run/dangling");
  EXPECT_NE(error_of([&] { FileWriter writer(folder.path() / "run/dangling"); }), "");
  fs::create_symlink(out, folder.path() / "run/link");
  EXPECT_NE(error_of([&] { set_file_size(folder.path() / "run/link", 0); }), "");
  limit_file_access(nullptr);
  EXPECT_EQ(read_file(out), "out");
}

TEST_F(SandboxTest, FoldersThatBeginAlikeAreDifferent) {
  make_dirs(folder.path() / "in-2");
  write_file_atomic(folder.path() / "in-2/file", "x");
  limit_file_access(&access);
  EXPECT_NE(error_of([&] { check_read(folder.path() / "in-2/file"); }), "");
  check_read(folder.path() / "in/absent/deeper");
  limit_file_access(nullptr);
}

TEST_F(SandboxTest, SystemCallsThatReachOthersFail) {
  expect_inside(access, {}, [] {
    const auto fails = [](long result) { return result < 0 && errno == EPERM; };
    char program[] = "/bin/true";
    char* arguments[] = {program, nullptr};
    return fails(::socket(AF_INET, SOCK_STREAM, 0)) && fails(::socket(AF_UNIX, SOCK_DGRAM, 0)) &&
           fails(::execv(program, arguments)) && fails(::fork()) && fails(::kill(::getppid(), 0)) &&
           fails(::kill(-1, 0)) && fails(::syscall(SYS_keyctl, 0, 0, 0)) &&
           fails(::syscall(SYS_ptrace, 0, 0, 0, 0)) && fails(::syscall(SYS_bpf, 0, nullptr, 0)) &&
           fails(::syscall(SYS_mount, nullptr, nullptr, nullptr, 0, nullptr)) &&
           fails(::syscall(SYS_io_uring_setup, 1, nullptr)) && fails(::ioctl(0, TIOCSTI, "x"));
  });
}

TEST_F(SandboxTest, AttributesSharedMemoryAndOtherProcessesAreOutOfReach) {
  expect_inside(access, {}, [&] {
    const auto fails = [](long result) { return result < 0 && errno == EPERM; };
    const int fd = ::open((folder.path() / "run/file").c_str(), O_WRONLY | O_CREAT, 0600);
    for (const long number : std::initializer_list<long>{
             SYS_fchmod, SYS_utimensat, SYS_shmctl, SYS_semctl, SYS_semop, SYS_semtimedop,
             SYS_msgctl, SYS_msgsnd, SYS_msgrcv, SYS_mq_unlink, 443, 452, 463, 466, 467, 469}) {
      if (!fails(::syscall(number, fd, 0, 0, 0, 0, 0))) return false;
    }
    cpu_set_t all;
    const bool own = ::sched_getaffinity(0, sizeof all, &all) == 0 &&
                     ::sched_setaffinity(0, sizeof all, &all) == 0 &&
                     ::sched_setaffinity(::getpid(), sizeof all, &all) == 0;
    return own && fails(::sched_setaffinity(::getppid(), sizeof all, &all)) &&
           fails(::fcntl(fd, F_SETOWN, ::getppid())) && fails(::fcntl(fd, F_SETFL, O_ASYNC)) &&
           ::fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
  });
}

TEST_F(SandboxTest, AProcessWhoseParentHasEndedDoesNotBegin) {
  const int64_t parent = ::getpid();
  EXPECT_EXIT(
      {
        const bool begins = error_of([&] { enter_sandbox(access, {}, {}, parent); }).empty();
        _exit(begins ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        const std::string said = error_of([&] { enter_sandbox(access, {}, {}, 1 << 30); });
        _exit(said.find("has ended") != said.npos ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SandboxTest, ManyFilesDoNotDelayTheNextCheck) {
  using namespace std::chrono_literals;
  EXPECT_EQ(pause_after_check(1ms), 500ms);
  EXPECT_EQ(pause_after_check(10ms), 990ms);
  EXPECT_EQ(pause_after_check(60s), 5s);
}

TEST_F(SandboxTest, FoldersAndNamesOutsideAreRefusedWithoutAKernelThatChecks) {
  write_file_atomic(folder.path() / "run/made", "x");
  limit_file_access(&access);
  const auto refused = [](const auto& act) {
    return error_of(act).find("may not be written") != std::string::npos;
  };
  const fs::path made = folder.path() / "run/made";
  EXPECT_TRUE(refused([&] { make_dirs(folder.path() / "out/new/deeper"); }));
  EXPECT_TRUE(refused([&] { rename_durable(made, folder.path() / "out/moved"); }));
  EXPECT_TRUE(refused([&] { rename_durable(in, folder.path() / "run/moved"); }));
  make_dirs(folder.path() / "out");  // is there already
  make_dirs(folder.path() / "run/new/deeper");
  rename_durable(made, folder.path() / "run/new/moved");
  limit_file_access(nullptr);
  EXPECT_TRUE(path_exists(folder.path() / "run/new/moved"));
  EXPECT_FALSE(path_exists(folder.path() / "out/new"));
}

TEST_F(SandboxTest, APipeIsNotWaitedFor) {
  const fs::path pipe = folder.path() / "in/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  limit_file_access(&access);
  for (const std::function<void()>& act : std::initializer_list<std::function<void()>>{
           [&] { read_file(pipe); }, [&] { MappedFile mapped(pipe); }, [&] { hash_file(pipe); },
           [&] { sha256_file(pipe); }}) {
    EXPECT_NE(error_of(act).find("is not a regular file"), std::string::npos);
  }
  limit_file_access(nullptr);
}

TEST_F(SandboxTest, ThreadsAndGeneratedCodeStillWork) {
  expect_inside(access, {}, [] {
    int seen = 0;
    std::thread([&] { seen = ::kill(::getpid(), 0) == 0 ? 1 : 2; }).join();
    void* code = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return seen == 1 && code != MAP_FAILED;
  });
}

TEST_F(SandboxTest, MemoryFilesAndTheirNumberHaveLimits) {
  expect_inside(access, {.memory_mb = 64, .files_mb = 1}, [&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const void* memory = ::mmap(nullptr, size_t{128} << 20, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int fd = ::open((folder.path() / "run/file").c_str(), O_WRONLY | O_CREAT, 0600);
    const bool large = ::ftruncate(fd, 2 << 20) == 0;
    int open = 0;
    while (::dup(fd) >= 0) ++open;
    return memory == MAP_FAILED && !large && open < 1024;
  });
}

// The kernel does not hold root to it.
TEST_F(SandboxTest, ProcessesHaveALimitOfTheKernelToo) {
  expect_inside(access, {}, [] {
    rlimit most{};
    ::getrlimit(RLIMIT_NPROC, &most);
    return most.rlim_max > 1024 && most.rlim_max < 1 << 20;
  });
}

TEST_F(SandboxTest, AKernelWithoutLandlockIsReported) {
  EXPECT_NE(limit_files_by_landlock(access, 0).find("no Landlock"), std::string::npos);
  EXPECT_EXIT(
      {
        const std::string old = limit_files_by_landlock(access, 2);
        _exit(old.find("older than Linux 6.2") != std::string::npos ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace xrun::sandbox_test
