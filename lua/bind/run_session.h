#pragma once
// Runs a recipe from its file to its last checkpoint and summary.

#include <functional>

#include "lua/bind/session.h"

namespace xrun {

// Resumes a recipe until it is done. A prompt has its own, which opens it where the recipe pauses.
using Drive = std::function<void(Recipe&)>;

// Returns the options with those of the run that --resume continues: its folder, its --set before
// the given ones, and its device and threads where none are given. Without --resume, and for a run
// that was killed before it began, the options are unchanged. Reads files only, so that a command
// can call it before LibTorch looks for devices. Throws UsageError if there is no such run, and for
// a --set of the run that the recipe no longer takes; with --force the latter becomes a notice.
RecipeOptions resumed_options(RecipeOptions options);

// Sets up torch and signals, runs the recipe, ends its run. After an error or an interruption it
// saves what can be saved and reports where. Returns the exit status 0; throws what the recipe
// threw, Interrupted after saving. By default the recipe runs straight through. A
// command passes its options through resumed_options first.
int run_session(const RecipeOptions& options, const Drive& drive = {});

}  // namespace xrun
