#pragma once
// A short training run with a known outcome, on the user's machine.

#include <string>

#include "core/console/terminal/finding.h"

namespace xrun {

// Trains a random model of 0.2M parameters with recipes/dpo.lua and its data for 16 steps, in a
// child process and a temporary folder, without network. threads 0: the default of a run. The
// finding is wrong unless the run ends well, begins at ln 2, ends lower and exports a model. Throws
// Interrupted.
Finding smoke_train(const std::string& device, int threads);

}  // namespace xrun
