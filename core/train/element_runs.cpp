// A slice is summed by one thread, so that the order of its additions never changes.

#include "core/train/element_runs.h"

#include "kernels/cpu/adamw.h"

namespace xrun {

std::vector<double> sums_of_squares(const std::vector<GradientSlice>& slices) {
  std::vector<double> sums(slices.size());
  ElementRuns runs;
  for (const GradientSlice& slice : slices) runs.add(slice.size);
  runs.each([&](size_t i) { sums[i] = kernels::sum_of_squares(slices[i].values, slices[i].size); });
  return sums;
}

}  // namespace xrun
