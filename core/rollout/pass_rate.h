#pragma once
// pass@k: the chance that at least one of k answers to a prompt passes.

#include <cstdint>
#include <vector>

namespace xrun {

// Answers to one prompt.
struct PassCount {
  int64_t answers = 0, passed = 0;
};

// Returns the mean over the prompts with at least k answers of 1 - C(n - c, k) / C(n, k), the
// unbiased estimate from n answers of which c passed (Chen et al. 2021, "Evaluating Large Language
// Models Trained on Code", eq. 1); NaN if there is no such prompt. Requires k >= 1.
double pass_at(int64_t k, const std::vector<PassCount>& prompts);

// Returns 1, 2, 4, ... up to the largest number of answers of a prompt, and that number itself.
std::vector<int64_t> pass_sizes(const std::vector<PassCount>& prompts);

}  // namespace xrun
