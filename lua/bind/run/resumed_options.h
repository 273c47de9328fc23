#pragma once
// The options of a command that continues a run.

#include "core/run/resumed_run.h"
#include "lua/bind/recipe.h"

namespace xrun {

// Returns the run that --resume continues. Throws UsageError if there is none.
ResumedRun resumed_run(const RecipeOptions& options);

// Returns the options with those of the run that --resume continues: its folder, its --set before
// the given ones, and its device and threads where none are given. Without --resume, and for a run
// that was killed before it began, the options are unchanged. Reads files only, so that a command
// can call it before LibTorch looks for devices. Throws UsageError if there is no such run, and for
// a --set of the run that the recipe no longer takes; with --force the latter becomes a notice.
RecipeOptions resumed_options(RecipeOptions options);

}  // namespace xrun
