// Threads take the next index from one counter. Indices are taken in order, so the lowest that
// fails has always been taken when a higher one fails.

#include "core/base/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace xrun {

void for_each_on_threads(size_t count, int workers, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t failed = count;
  std::exception_ptr failure;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
        next = count;  // indices not yet taken are left out
      }
    }
  };
  const size_t limit = workers > 0 ? static_cast<size_t>(workers)
                                   : std::max<size_t>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  const size_t more = std::min(limit, count) - std::min<size_t>(1, count);
  try {
    while (threads.size() < more) threads.emplace_back(run);
  } catch (const std::system_error&) {  // the system gives no more threads: fewer share the work
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace xrun
