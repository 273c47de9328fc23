#pragma once
// Two series of one metric, step by step.

#include <cstdint>
#include <functional>
#include <optional>

#include "core/run/record/metrics_file.h"

namespace xrun {

// What two runs logged at a step; nothing where one of them did not.
struct StepValues {
  int64_t step;
  std::optional<double> a, b;
};

// The first step of either series for which `holds` is true.
std::optional<StepValues> first_step_where(const MetricSeries& a, const MetricSeries& b,
                                           const std::function<bool(const StepValues&)>& holds);

// Whether two values are the same bit by bit; one NaN is as good as another.
bool same_value(double a, double b);

// Whether a metric is what a run came to: speed (perf/*) is not.
bool is_result(const MetricSeries& series);

}  // namespace xrun
