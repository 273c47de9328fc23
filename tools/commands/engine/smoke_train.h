#pragma once
// A short training run whose outcome is known, on the user's own machine.

#include <string>

#include "core/console/terminal/finding.h"

namespace xrun {

// Trains a random model of 0.2M parameters with recipes/dpo.lua and its data for 16 steps, in a
// process of its own and a folder that is removed; no network is used. threads 0: as many as a run
// takes by itself. Wrong unless the run ends
// well, begins at ln 2, ends lower and exports a model. Throws Interrupted.
Finding smoke_train(const std::string& device, int threads);

}  // namespace xrun
