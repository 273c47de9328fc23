#pragma once
// The machine that a run ran on, as run.json keeps it for those who read the run elsewhere.

#include "core/base/json.h"

namespace xrun {

// {"cpu": the model's name, "cores": threads that run at once, "memory_bytes", "system": kernel and
// architecture}. What the system does not tell is left out. No name of the machine or of its user.
Json run_environment();

}  // namespace xrun
