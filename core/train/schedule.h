#pragma once
// Learning-rate schedules, as pure functions of the step.

#include <cstdint>
#include <string>
#include <string_view>

namespace xrun {

enum class Schedule { kConstant, kLinear, kCosine };

// Returns the schedule of a name. Throws Error with the names otherwise.
Schedule schedule_of(std::string_view name);

// Returns the number of warm-up steps: warmup itself from 1 up, below 1 that share of the steps,
// rounded up (as the Hugging Face trainer's warmup_ratio).
int64_t warmup_steps(double warmup, int64_t total_steps);

// Returns the factor of update k = 0, 1, ..., total_steps - 1, as LambdaLR gives it to
// transformers' get_{constant,linear,cosine}_schedule_with_warmup: in the warm-up k / warm-up steps
// (so the first update of a warm-up has factor 0), afterwards 1, or falling to 0 at total_steps.
double schedule_factor(Schedule schedule, int64_t k, int64_t warmup, int64_t total_steps);

}  // namespace xrun
