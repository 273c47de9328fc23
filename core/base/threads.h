#pragma once
// A loop whose iterations run on several threads.

#include <cstddef>
#include <functional>

namespace xrun {

// Calls work(i) for i in [0, count) on up to `workers` threads (0: one per core) and waits. Throws
// the error of the lowest i that failed.
void for_each_on_threads(size_t count, int workers, const std::function<void(size_t)>& work);

}  // namespace xrun
