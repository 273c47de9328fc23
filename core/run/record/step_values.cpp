#include "core/run/record/step_values.h"

#include <bit>
#include <cmath>

namespace xrun {

std::optional<StepValues> first_step_where(const MetricSeries& a, const MetricSeries& b,
                                           const std::function<bool(const StepValues&)>& holds) {
  for (size_t i = 0, j = 0; i < a.steps.size() || j < b.steps.size();) {
    const bool in_a = i < a.steps.size() && (j == b.steps.size() || a.steps[i] <= b.steps[j]);
    const bool in_b = j < b.steps.size() && (i == a.steps.size() || b.steps[j] <= a.steps[i]);
    StepValues values{in_a ? a.steps[i] : b.steps[j], {}, {}};
    if (in_a) values.a = a.values[i++];
    if (in_b) values.b = b.values[j++];
    if (holds(values)) return values;
  }
  return std::nullopt;
}

bool same_value(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool is_result(const MetricSeries& series) { return !series.name.starts_with("perf/"); }

}  // namespace xrun
