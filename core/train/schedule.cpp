#include "core/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"

namespace xrun {

Schedule schedule_of(std::string_view name) {
  if (name == "constant") return Schedule::kConstant;
  if (name == "linear") return Schedule::kLinear;
  if (name == "cosine") return Schedule::kCosine;
  throw UsageError(
      fmt::format("\"{}\" is no schedule; the schedules are constant, linear and cosine", name));
}

int64_t warmup_steps(double warmup, int64_t total_steps) {
  if (warmup >= 1.0) return static_cast<int64_t>(warmup);
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup));
}

double schedule_factor(Schedule schedule, int64_t k, int64_t warmup, int64_t total_steps) {
  auto part = [](int64_t a, int64_t b) {
    return static_cast<double>(a) / static_cast<double>(std::max<int64_t>(1, b));
  };
  if (k < warmup) return part(k, warmup);
  switch (schedule) {
    case Schedule::kConstant: return 1.0;
    case Schedule::kLinear: return std::max(0.0, part(total_steps - k, total_steps - warmup));
    case Schedule::kCosine: {
      const double done = part(k - warmup, total_steps - warmup);
      return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
    }
  }
  return 1.0;
}

}  // namespace xrun
