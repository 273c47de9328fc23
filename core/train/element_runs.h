#pragma once
// Work on many runs of elements, divided evenly among threads.

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xrun {

// Divides runs among threads so that all get about the same number of elements.
class ElementRuns {
 public:
  void add(int64_t size) { ends_.push_back((ends_.empty() ? 0 : ends_.back()) + size); }

  // Calls f(run, begin, end) for parts [begin, end) that cover all runs.
  template <typename F>
  void each_part(const F& f) const {
    if (ends_.empty()) return;
    at::parallel_for(0, ends_.back(), kThreadElements, [&](int64_t begin, int64_t end) {
      for (size_t i = first_after(begin); i < ends_.size() && start(i) < end; ++i) {
        f(i, std::max(begin - start(i), int64_t{0}), std::min(end, ends_[i]) - start(i));
      }
    });
  }
  // Calls f(run) for each run, whole.
  template <typename F>
  void each(const F& f) const {
    if (ends_.empty()) return;
    at::parallel_for(0, ends_.back(), kThreadElements, [&](int64_t begin, int64_t end) {
      for (size_t i = first_after(begin); i < ends_.size() && start(i) < end; ++i) {
        // A run that began earlier belongs to another thread.
        if (start(i) >= begin) f(i);
      }
    });
  }

 private:
  static constexpr int64_t kThreadElements = 1 << 18;  // fewer are not worth a second thread

  int64_t start(size_t i) const { return i == 0 ? 0 : ends_[i - 1]; }
  size_t first_after(int64_t element) const {
    return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), element) -
                               ends_.begin());
  }
  std::vector<int64_t> ends_;
};

// At most kSliceElements of a gradient, in fp32.
struct GradientSlice {
  const float* values;
  int64_t size;
};
// Returns the sum of the squares of each slice, the same bits on any number of threads.
std::vector<double> sums_of_squares(const std::vector<GradientSlice>& slices);

}  // namespace xrun
