#pragma once
// The sampled answers of a loop: whether its prompts fit, and the record of a body that sampled.

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

// After an error in the open body, whose update may be done and counts as a step then: writes the
// answers that it sampled. Throws Error if that fails. Of one process alone; others may be gone.
void write_rollouts_after_error(RunLoop& run);

}  // namespace xrun
