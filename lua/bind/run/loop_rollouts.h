#pragma once
// Checks, metrics and records of the answers that a loop samples.

#include <cstdint>
#include <string>

namespace xrun {

class RunLoop;
struct StepLoop;
struct StepSource;

// Throws Error for a prompt that leaves no room for an answer, and for an extra column named like a
// field of rollouts. Checks nothing if it is not known how the loop samples.
void check_prompts_fit(const StepLoop& loop, const StepSource& source);

// Returns the line on rollouts for the report before step 0; "" if it is not known how the loop
// samples.
std::string describe_rollouts(const StepSource& source);

// Logs the metrics of the answers that the open body sampled, and writes them to the run. Does
// nothing if it sampled none.
void log_rollouts(RunLoop& run);

// Writes, after an error, the answers that the body of `step` sampled, if its update counts as that
// step. One rank calls it without the others, which may be gone. Throws Error if writing fails.
void write_rollouts_after_error(RunLoop& run, int64_t step);

}  // namespace xrun
