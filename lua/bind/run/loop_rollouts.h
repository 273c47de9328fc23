#pragma once
// The sampled answers of a loop: whether its prompts fit, and the record of a body that sampled.

#include <cstdint>
#include <string>

namespace xrun {

class RunLoop;
struct StepLoop;
struct StepSource;

// Throws Error, where it is known how the loop samples, for a prompt that leaves no room for an
// answer and for an extra column with the name of a field of rollouts.
void check_prompts_fit(const StepLoop& loop, const StepSource& source);

// The line on rollouts of the report before step 0; "" if it is not known how a loop over prompts
// samples.
std::string describe_rollouts(const StepSource& source);

// Logs the metrics of the answers that the open body sampled, and writes them to the run. Does
// nothing if it sampled none.
void log_rollouts(RunLoop& run);

// After an error: writes the answers that the body `step` sampled, if its update counts as that
// step. Throws Error if that fails. By one rank without the others, which may be gone.
void write_rollouts_after_error(RunLoop& run, int64_t step);

}  // namespace xrun
