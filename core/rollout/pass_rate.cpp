// C(n - c, k) / C(n, k) = product over i = n - c + 1 .. n of (1 - k / i), the authors' stable form.

#include "core/rollout/pass_rate.h"

#include <algorithm>
#include <limits>

namespace xrun {

namespace {

double estimate(int64_t n, int64_t c, int64_t k) {
  // Fewer failures than samples drawn: one of them must pass.
  if (n - c < k) return 1;
  double all_fail = 1;
  for (int64_t i = n - c + 1; i <= n; ++i) {
    all_fail *= 1 - static_cast<double>(k) / static_cast<double>(i);
  }
  return 1 - all_fail;
}

}  // namespace

double pass_at(int64_t k, const std::vector<PassCount>& prompts) {
  double sum = 0;
  int64_t count = 0;
  // Fewer than k answers estimate nothing; such a prompt is left out of the mean.
  for (const PassCount& prompt : prompts) {
    if (prompt.answers < k) continue;
    sum += estimate(prompt.answers, prompt.passed, k);
    ++count;
  }
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>(count);
}

std::vector<int64_t> pass_sizes(const std::vector<PassCount>& prompts) {
  int64_t most = 0;
  for (const PassCount& prompt : prompts) most = std::max(most, prompt.answers);
  std::vector<int64_t> sizes;
  // 1, 2, 4, ... and the largest: the points of the usual pass@k curve.
  for (int64_t k = 1; k < most; k *= 2) sizes.push_back(k);
  if (most > 0) sizes.push_back(most);
  return sizes;
}

}  // namespace xrun
