#pragma once
// Joins the ranks of a run as the environment describes them, and ends them together.

#include <functional>
#include <memory>

#include "core/dist/ranks.h"

namespace xrun {

// Joins the ranks that the environment describes; returns null for a single process. With
// XRUN_DIST_CHECK=1 every collective is compared over ranks before it runs, with XRUN_DIST_TIMES=1
// it is timed. Throws UsageError for an incomplete environment, Error if the ranks do not meet.
std::unique_ptr<Ranks> join_run();

// If this process is a rank, hides all GPUs but that of its local rank. Call it before anything
// asks for GPUs. Throws UsageError if there are fewer GPUs than ranks.
void choose_gpu_of_rank();

// Returns run()'s status. An error of run() ends the other ranks too, and one rank prints it: the
// function rethrows the error there and does not return on the others. An Interrupted passes, since
// all ranks have agreed on it. `ranks` may be null.
int run_on_ranks(Ranks* ranks, const std::function<int()>& run);

}  // namespace xrun
