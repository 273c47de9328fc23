// Lost memory of libraries: one message and status 1, in a child process.

#include "core/model/ops/allocator.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

extern "C" void* (*i_malloc)(size_t) __attribute__((weak));

namespace xrun {

constexpr char kMessage[] = "^xrun: error: out of memory: LibTorch cannot go on .*\n$";

TEST(LostMemory, AFaultAfterAFailedAllocationIsReported) {
  EXPECT_EXIT(
      {
        report_lost_memory();
        errno = ENOMEM;
        ::raise(SIGSEGV);
      },
      testing::ExitedWithCode(1), kMessage);
}

TEST(LostMemory, AnotherFaultEndsTheProcessAsBefore) {
  EXPECT_EXIT(
      {
        report_lost_memory();
        errno = 0;
        ::raise(SIGSEGV);
        ::raise(SIGSEGV);  // the handler has returned, as to the instruction
      },
      testing::KilledBySignal(SIGSEGV), "^$");
}

TEST(LostMemory, MklDoesNotGoOnWithoutItsBuffer) {
  if (&i_malloc == nullptr) GTEST_SKIP() << "this LibTorch has no MKL";
  EXPECT_EXIT(
      {
        report_lost_memory();
        std::free(i_malloc(1 << 20));
        i_malloc(size_t{1} << 62);
      },
      testing::ExitedWithCode(1), kMessage);
}

}  // namespace xrun
