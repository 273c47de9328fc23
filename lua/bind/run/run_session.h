#pragma once
// Runs a recipe from its file to its last checkpoint and summary.

#include <functional>

#include "lua/bind/session.h"

namespace xrun {

// Resumes a recipe until it is done. A prompt has its own, which opens it where the recipe pauses.
using Drive = std::function<void(Recipe&)>;

// Sets up torch and signals, runs the recipe, ends its run. After an error or an interruption it
// saves what can be saved and reports where. Returns the exit status 0; throws what the recipe
// threw, Interrupted after saving. By default the recipe runs straight through. A
// command passes its options through resumed_options first.
int run_session(const RecipeOptions& options, const Drive& drive = {});

}  // namespace xrun
