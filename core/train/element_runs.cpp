// A chunk is summed by one thread, so that the order of its additions never changes.

#include "core/train/element_runs.h"

#include "kernels/cpu/adamw.h"

namespace xrun {

std::vector<double> sums_of_squares(const std::vector<GradientChunk>& chunks) {
  std::vector<double> sums(chunks.size());
  ElementRuns runs;
  for (const GradientChunk& chunk : chunks) runs.add(chunk.size);
  runs.each([&](size_t i) { sums[i] = kernels::sum_of_squares(chunks[i].values, chunks[i].size); });
  return sums;
}

}  // namespace xrun
