#pragma once
// The ranks of a run: joined from the environment, and ended together.

#include <functional>
#include <memory>

#include "core/dist/ranks.h"

namespace xrun {

// Joins the ranks that the environment describes; null for a process alone. With XRUN_DIST_CHECK=1
// every collective is compared over ranks before it runs, with XRUN_DIST_TIMES=1 it is timed.
// Throws UsageError for a half-set environment, Error if the ranks do not meet.
std::unique_ptr<Ranks> join_run();

// Hides all GPUs but that of this process's local rank from it, if it is a rank. Call it before
// anything asks for GPUs. Throws UsageError if there are fewer GPUs than ranks.
void choose_gpu_of_rank();

// Returns run()'s status. An error of it ends the other ranks too, and one rank prints it: this
// function rethrows it there and does not return elsewhere. An interruption is the ranks' own
// agreement and passes. `ranks` may be null.
int run_on_ranks(Ranks* ranks, const std::function<int()>& run);

}  // namespace xrun
