// A_i = (r_i - b_i) / (s + eps), s^2 = sum_j (r_j - mean)^2 / (n - 1) over the group of i.
// b_i is the mean, or the mean of the others: then r_i - b_i = n / (n - 1) (r_i - mean).

#include "core/train/advantage.h"

#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/train/batches/unit.h"

namespace xrun {

namespace {

void check_rewards(const at::Tensor& reward, const at::Tensor& group) {
  XRUN_CHECK(reward.dim() == 1, "rewards have shape [{}], wanted one per rollout",
             fmt::join(reward.sizes(), ", "));
  XRUN_CHECK(group.dim() == 1 && group.numel() == reward.numel(),
             "groups have shape [{}], wanted [{}] as the rewards", fmt::join(group.sizes(), ", "),
             reward.numel());
  XRUN_CHECK(group.scalar_type() == at::kLong, "groups are {}, wanted whole numbers (i64)",
             c10::toString(group.scalar_type()));
}

std::vector<double> host_rewards(const at::Tensor& reward) {
  const at::Tensor host = reward.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* const values = host.const_data_ptr<double>();
  std::vector<double> out(values, values + host.numel());
  for (size_t i = 0; i < out.size(); ++i) {
    XRUN_CHECK(std::isfinite(out[i]), "the reward of rollout {} is {}, wanted a finite number", i,
               std::isnan(out[i]) ? std::fabs(out[i]) : out[i]);
  }
  return out;
}

// Replaces the rewards of one group by its advantages.
void advance_group(const std::vector<size_t>& members, std::vector<double>& values,
                   const AdvantageOptions& options) {
  const auto n = static_cast<double>(members.size());
  double sum = 0, low = values[members.front()], high = low;
  for (const size_t i : members) {
    sum += values[i];
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  // Rounding of the mean would leave equal rewards a tiny advantage, which a small eps inflates.
  if (low == high) {
    for (const size_t i : members) values[i] = 0;
    return;
  }
  const double mean = sum / n;
  double squares = 0;
  for (const size_t i : members) squares += (values[i] - mean) * (values[i] - mean);
  // r - mean of the others = n / (n - 1) (r - mean); n >= 2 here, since one reward equals itself.
  double factor = options.baseline == Baseline::kLeaveOneOut ? n / (n - 1) : 1.0;
  if (options.scale) factor /= std::sqrt(squares / (n - 1)) + options.eps;
  for (const size_t i : members) values[i] = (values[i] - mean) * factor;
}

}  // namespace

at::Tensor group_advantage(const at::Tensor& reward, const at::Tensor& group,
                           const AdvantageOptions& options) {
  check_rewards(reward, group);
  XRUN_CHECK(options.eps >= 0, "eps is {}, wanted 0 or more", options.eps);
  // On the host in fp64: a few numbers, and the same bits on any device.
  std::vector<double> values = host_rewards(reward);
  const at::Tensor host = group.to(at::kCPU).contiguous();
  const int64_t* const ids = host.const_data_ptr<int64_t>();
  const Grouping groups = group_by(std::vector<int64_t>(ids, ids + host.numel()));
  std::vector<std::vector<size_t>> members(groups.first.size());
  for (size_t i = 0; i < values.size(); ++i) {
    XRUN_CHECK(groups.unit[i] >= 0, "the group of rollout {} is {}, wanted 0 or more", i, ids[i]);
    members[static_cast<size_t>(groups.unit[i])].push_back(i);
  }
  for (const std::vector<size_t>& group : members) advance_group(group, values, options);
  const at::ScalarType type =
      reward.is_floating_point() ? reward.scalar_type() : at::ScalarType::Float;
  return at::tensor(values, at::kDouble).to(reward.device(), type);
}

}  // namespace xrun
