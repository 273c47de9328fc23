// Computing and waiting for something outside count as work; waiting for another thread does not.

#include "core/dist/watch/process_work.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace xrun {
namespace process_work_test {

// Returns what `ask` says on another thread, while this one waits for it.
bool asked_elsewhere(const std::function<bool()>& ask) {
  bool answer = false;
  std::thread other([&] { answer = ask(); });
  other.join();
  return answer;
}

// Returns if `ask` comes to say `wanted` within two seconds: a thread needs a moment to block.
bool comes_to(const std::function<bool()>& ask, bool wanted) {
  for (int i = 0; i < 200; ++i) {
    if (asked_elsewhere(ask) == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(ProcessWork, AThreadThatWaitsForAnotherIsNotOutside) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread waits([&] {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done; });
  });
  EXPECT_TRUE(comes_to(waits_for_outside, false));
  {
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
  }
  changed.notify_all();
  waits.join();
}

TEST(ProcessWork, AThreadThatReadsAPipeIsOutside) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::thread reads([&] {
    char byte;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  });
  EXPECT_TRUE(comes_to(waits_for_outside, true));
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  reads.join();
  ::close(ends[0]);
  ::close(ends[1]);
}

// Four loops on one processor: each has a quarter of it and wants all of it.
TEST(ProcessWork, ALoopOnAFullMachineWantsAllTime) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  std::atomic<bool> stop = false;
  std::atomic<int> started = 0;
  std::atomic<int64_t> thread = 0;
  std::vector<std::thread> loops;
  for (int i = 0; i < 4; ++i) {
    loops.emplace_back([&, i] {
      ::sched_setaffinity(0, sizeof one, &one);
      if (i == 0) thread = ::syscall(SYS_gettid);
      ++started;
      while (!stop) {
      }
    });
  }
  while (started < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const int64_t begin = runnable_ms(thread);
  const auto began = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const int64_t wanted = runnable_ms(thread) - begin;
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - began;
  stop = true;
  for (std::thread& loop : loops) loop.join();
  if (begin < 0) GTEST_SKIP() << "the system does not say";
  EXPECT_GT(static_cast<double>(wanted), 0.6 * passed.count());
  EXPECT_EQ(runnable_ms(0), -1);
}

TEST(ProcessWork, TheCallersOwnTimeDoesNotCount) {
  const int64_t before = other_threads_cpu_ms();
  int64_t own = 0;
  std::thread busy([&] {
    const int64_t begin = other_threads_cpu_ms();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
    while (std::chrono::steady_clock::now() < end) {
    }
    own = other_threads_cpu_ms() - begin;
  });
  busy.join();
  EXPECT_LT(own, 20);
  EXPECT_GE(other_threads_cpu_ms() - before, 5);  // of the thread that has ended
}

}  // namespace process_work_test
}  // namespace xrun
